// Target: the kind of machine that lowering makes kernels for. On a GPU every element has a thread, so loops
// stay whole and the parts of sums are shorter (schedule.h).
#pragma once

#include <cstdint>

namespace tenon::jit {

enum class Target : uint8_t { cpu, gpu };

}  // namespace tenon::jit
