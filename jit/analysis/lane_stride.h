// lane_step: by how much a value of a kernel goes up from lane to lane, for the emitters. Tested by tests/unit/jit/emit_test.cc and
// tests/unit/jit/emit_cuda_maps_test.cc.
#pragma once

#include <optional>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

const Axis* axis_of(const Block& block, Ref variable);

// From one iteration of the axis to the next, whatever the others are; nothing where it is not known to be always the same.
std::optional<int64_t> lane_step(const Kernel& kernel, Ref value, Ref axis);

}  // namespace tenon::jit
