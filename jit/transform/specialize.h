// specialize: a kernel for one set of sizes. Extents, strides and size values become constants. The
// statements and their order stay the same, so the results are the same bit for bit. Tested by
// tests/unit/jit/transform/specialize_test.cc.
#pragma once

#include <span>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

// sizes: one for each size of the kernel. The result takes no sizes; its name ends with them.
Kernel with_sizes(const Kernel& kernel, std::span<const int64_t> sizes);

}  // namespace tenon::jit
