// blocked_column_sums: splits a kernel over rows that also adds up their elements over all rows, as the
// backward pass of a norm does, into two kernels. In the first, each par iteration takes a block of rows,
// walks them one after another and keeps sums of their columns. The second adds up the sums of the blocks. So
// inputs are read once, and the order of all sums is fixed. Tested by tests/golden/jit/lower_norm_backward.tn,
// tests/golden/jit/lower_gpu_norm_backward.tn, tests/unit/jit/schedule/cuda_schedule_test.cc and
// tests/unit/backends/cuda_program_test.cc.
#pragma once

#include <vector>

#include "jit/lower/lower.h"

namespace tenon::jit {

// The reductions of a group that fold exactly the axes that its other reductions keep: sums over rows beside
// sums along rows. No member reads these sums, except one that casts what is stored. Empty if rows are too
// long for a block to keep sums of their columns, or if their length is unknown.
std::vector<LowerInput::Sum> sums_beside_rows(const LowerInput& in);

// rows: a kernel with sums, as lowering returns it. unsupported: its loops are not single loops over rows and
// over elements.
Result<std::vector<LoweredKernel>> blocked_column_sums(LoweredKernel rows, const LowerInput& in);

}  // namespace tenon::jit
