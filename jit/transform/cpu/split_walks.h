// split_walks: splits a kernel that walks several times along few columns, as batch norm does, into one kernel
// for each walk. Threads take columns, so a second walk in the same kernel would keep as few of them busy as there
// are tiles of columns. Alone, a reduction runs in parts (split_reduction.h), and a loop that writes elements
// becomes a par nest over rows and columns. Columns of values that later walks read are temporaries. schedule.h
// decides how many columns are few. CPU only. Tested by tests/unit/jit/transform/cpu/split_walks_test.cc and
// tests/golden/jit/lower_batch_norm.tn.
#pragma once

#include <vector>

#include "jit/lower/lower.h"

namespace tenon::jit {

// lowered: a kernel as lowering returns it, before tiling. Returns this kernel alone, or the kernels in the order
// in which they run.
std::vector<LoweredKernel> split_walks(const LoweredKernel& lowered, DimTable& dims);

}  // namespace tenon::jit
