// row_blocks: rows that also add up their elements over all rows, as the backward pass of a norm does, in two kernels. The first
// takes blocks of rows, each a par iteration that goes through its rows one after another and keeps sums of their columns; the
// second adds up what the blocks leave. So inputs are read once, and the order of all sums is fixed. For GPUs.
// Tested by tests/golden/jit/lower_gpu_norm_backward.tn, tests/unit/jit/cuda_schedule_test.cc, tests/unit/backends/cuda_program_test.cc.
#pragma once

#include <vector>

#include "jit/lower/lower.h"

namespace tenon::jit {

// The reductions of a group that fold exactly the axes which its others keep: sums over rows beside sums along them, which no
// member reads, but for one that casts what is stored. None where rows are so long that a block could not keep sums of their columns, or their length is unknown.
std::vector<LowerInput::Sum> sums_beside_rows(const LowerInput& in);

// rows: as lowering leaves it, with sums. unsupported where its loops are not rows of one loop each.
Result<std::vector<LoweredKernel>> blocked_column_sums(LoweredKernel rows, const LowerInput& in);

}  // namespace tenon::jit
