// with_sizes: a kernel for one set of sizes. Extents, strides and size values become constants, nothing else changes: the
// same statements in the same order, hence the same bits. Tested by tests/unit/jit/specialize_test.cc.
#pragma once

#include <span>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

// sizes: one per size of the kernel. The result takes no sizes; its name ends in them.
Kernel with_sizes(const Kernel& kernel, std::span<const int64_t> sizes);

}  // namespace tenon::jit
