// kernel_edit: helpers for the rewrites that make several kernels of one (split_reduction,
// blocked_column_sums, kernel_fission): size arguments, temporaries between kernels, and removal of unused
// buffers and sizes. Tested by tests/unit/jit/transform/split_reduction_test.cc and tests/golden/jit/lower_*.tn.
#pragma once

#include <span>

#include "jit/lower/lower.h"

namespace tenon::jit {

Dim dim_of(const Extent& extent, const LoweredKernel& kernel, DimTable& dims);

// The index of the size argument with this Dim. Adds one if there is none.
int size_argument(LoweredKernel& kernel, Dim size);

// Sets the temporaries of the kernel to `temps`, and adds buffers for the `last` ones at the end, after the
// inputs and outputs and before the locals. Returns the number of the first new buffer.
int add_temps(LoweredKernel& kernel, std::span<const Temp> temps, size_t last, Buffer::Role role);

// Removes buffers and sizes that no statement names. Renames the remaining sizes.
void drop_unused(LoweredKernel& kernel);

}  // namespace tenon::jit
