// tile: rewrites a kernel so that what its loops touch together lies together. In comes any kernel, as lowering leaves it:
// loops over whole axes. Out comes one that computes the same, but for the order of its sums, or the same kernel where no
// tiling helps. Sizes of tiles are schedule.h's. Tested by tests/unit/jit/tile_test.cc and tests/golden/jit/lower_*.tn.
#pragma once

#include "jit/kernel/kernel.h"
#include "src/ir/dim.h"

namespace tenon::jit {

// Reductions whose par axis runs across lanes: instead of every vector of columns walking all rows, a tile of columns
// is summed row after row into locals. Rows are added a few at a time, in blocks, so errors grow with neither.
// sizes: what the size arguments are.
Kernel tile_columns(Kernel kernel, const Dims& sizes);

// Maps that read a buffer along one axis and write along another: both in tiles, so each line of memory is read once.
Kernel tile_transposed(Kernel kernel, const Dims& sizes);

}  // namespace tenon::jit
