// pieces: what those who make several kernels of one share (split, row_blocks, cut): size arguments, temporaries between the
// kernels, and leaving out what a piece does not name. Tested by tests/unit/jit/split_reduction_test.cc, tests/golden/jit/lower_*.tn.
#pragma once

#include <span>

#include "jit/lower/lower.h"

namespace tenon::jit {

Dim dim_of(const Extent& extent, const LoweredKernel& kernel, DimTable& dims);

// The number of the size argument that means this; a new one if there is none.
int size_argument(LoweredKernel& kernel, Dim size);

// Buffers for the last of the temporaries `temps`, whose list becomes the kernel's: behind its inputs and outputs, in front of
// its locals. The number of the first of them.
int add_temps(LoweredKernel& kernel, std::span<const Temp> temps, size_t last, Buffer::Role role);

// Buffers and sizes that no statement names any more go; sizes get their names anew.
void drop_unused(LoweredKernel& kernel);

}  // namespace tenon::jit
