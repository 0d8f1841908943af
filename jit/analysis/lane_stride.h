// lane_stride: by how much a value of a kernel grows from lane to lane, for the emitters. Tested by
// tests/unit/jit/llvm/emit_test.cc and tests/unit/jit/cuda/emit_cuda_maps_test.cc.
#pragma once

#include <optional>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

const Axis* axis_of(const Block& block, Ref variable);

// The increase of `value` from one iteration of the axis to the next, for all iterations of the other axes.
// Nothing if it is not known to be constant.
std::optional<int64_t> lane_step(const Kernel& kernel, Ref value, Ref axis);

}  // namespace tenon::jit
