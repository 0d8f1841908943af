// tile: rewrites the loops of a kernel so that accesses close in time are close in memory. Input: a kernel as
// lowering returns it, with loops over whole axes. Output: a kernel that computes the same except for the
// order of its sums, or the same kernel if tiling does not help. schedule.h decides the sizes of tiles.
// Tested by tests/unit/jit/transform/cpu/tile_test.cc and tests/golden/jit/lower_*.tn.
#pragma once

#include "jit/kernel/kernel.h"
#include "src/ir/dim/dim.h"

namespace tenon::jit {

// For reductions whose par axis runs across lanes. Instead of walking all rows once per vector of columns,
// sums a tile of columns row after row into locals. Adds rows a few at a time, in blocks, so that rounding
// errors stay small. sizes: the Dims of the size arguments.
Kernel tile_columns(Kernel kernel, const Dims& sizes);

// For maps that read a buffer along one axis and write along another. Runs both axes in tiles, so that each
// line of memory is read once.
Kernel tile_transposed(Kernel kernel, const Dims& sizes);

// For rows whose elements lie far apart in a buffer, while the elements of neighboring rows lie side by side. Copies a tile of rows into a
// local, or stores it from one, so that each line of memory is read or written once and the loops along a row read neighbors. The rows are
// iterations of the par nest, or of a part of a sum (long_sums.h).
Kernel tile_rows(Kernel kernel, const Dims& sizes);

}  // namespace tenon::jit
