// Target: what lowering makes kernels for. On a GPU every element has a thread: loops stay whole, and sums have shorter parts
// (schedule.h).
#pragma once

#include <cstdint>

namespace tenon::jit {

enum class Target : uint8_t { cpu, gpu };

}  // namespace tenon::jit
