// schedule: how the loops of a lowered group run. Only the files of jit/schedule/ know tile sizes, unroll
// factors and grain sizes. Pure functions of the loop axes and the accesses, so tests need no machine. Tested by
// tests/unit/jit/schedule/schedule_test.cc.
#pragma once

#include <vector>

#include "jit/analysis/index.h"
#include "jit/kernel/target.h"

namespace tenon::jit {

struct Access {
  Index address;  // in elements
  bool store = false;
  int buffer = 0;  // equal for all accesses of one buffer
  friend bool operator==(const Access&, const Access&) = default;
};

// The final loops.
struct Schedule {
  // Axes that each loop merges, outermost first.
  std::vector<std::vector<uint32_t>> classes;
  std::vector<int> par;      // classes of the par nest, outermost first
  std::vector<int> inner;    // classes of every inner loop, outermost first
  bool simd_par = false;     // the last par class runs across lanes (column kernels and flat kernels)
  bool simd_inner = false;   // the last inner class runs across lanes (row kernels, nested maps)
  int64_t narrow_below = 0;  // inner loops of fewer iterations are narrow
};

// Loops of fewer iterations leave lanes idle: lanes run along one only if there is no other loop.
inline constexpr int64_t kNarrow = 8;
// Inner loops of fewer iterations are narrow. With lanes along rows, the lanes of each fold are combined at the end of a row, which takes
// `folds` times as long as one sum; with lanes across rows, each of the `streams` that have elements of their own for each lane is
// gathered or scattered.
int64_t narrow_below(int folds, int streams);
bool is_narrow(Dim extent);
Dim merged_extent(DimTable& dims, const std::vector<LoopAxis>& axes, const std::vector<uint32_t>& merged);

// fixed[a]: axis a keeps its own loop, because its variable is used as a value. carried: the inner axes are
// sequential (scan): they never run across lanes and never merge. folds: as in narrow_below(); 0 on a
// GPU. unknown_is_narrow: inner loops of an unknown number of iterations are taken to be narrow. unrolls: short inner loops become
// statements if these fill the elements that the lanes of a store leave out (unroll_short_loops.h).
Schedule schedule(DimTable& dims, const std::vector<LoopAxis>& axes, const std::vector<Access>& accesses,
                  const std::vector<bool>& fixed, bool carried, int folds = 0, bool unknown_is_narrow = false,
                  bool unrolls = false);
// The most accesses of a loop that is unrolled, in all of its iterations: more need too many registers.
inline constexpr int64_t kMostUnrolled = 16;

// Whether a value that several loops over a row compute is stored in a local with the length of a row,
// instead of computed again.
struct Recomputed {
  bool expensive;        // the op of the value is expensive
  int64_t stream_bytes;  // bytes that an element reads from operands as large as the value
};
bool keeps_row(Recomputed value, Dim row, const Dims& par);

// Number of independent accumulators of a vector reduction whose body has `statements` scalar statements.
int reduce_unroll(size_t statements);

// Column reductions (tile.h). A tile of columns reads long runs of each row and keeps its sums in L1. A block
// has about as many rows as there are blocks in a few thousand rows.
inline constexpr int64_t kColumnTile = 256, kRowsPerBlock = 64;
// Rows that are summed in registers before their sum is added to the sum of the block, given the size of the
// body.
int64_t rows_per_visit(size_t statements);

// Transposing maps (tile.h): elements of a tile along the axis that lanes jump over, and along the axis of
// lanes.
inline constexpr int64_t kTransposeAcross = 16, kTransposeAlong = 64;
bool tiles_transposed(Dim across, Dim along);

// Elements of a part if a reduction of `elements` runs as two kernels, parts first (split_reduction.h); 0:
// one kernel. columns: lanes run across columns, and `elements` counts rows. par: the remaining axes. inner:
// extent of the second axis of a reduction over two axes that are not adjacent; only a GPU splits these.
// again: another loop walks the folded elements afterwards; on a GPU such rows stay whole where they are
// many, because on-chip memory may keep them.
int64_t reduction_part(const Dims& par, Dim elements, bool columns, Target target = Target::cpu,
                       Dim inner = Dim(1), bool again = false);

// Rows of a part if a column reduction also stores what it folds (stores_in_folds.h); 0: one kernel. Such parts are short, so that
// all threads have work for a small image.
int64_t storing_part(Dim rows);

// Elements of a part for rows on a GPU whose sum follows a maximum (join_online_reductions.h); 0: one kernel.
// Splits only rows so few and long that the GPU would be idle otherwise.
int64_t online_part(const Dims& par, Dim elements);

// A kernel for a GPU walks along columns of more rows only once (split_reduction.h).
inline constexpr int64_t kMostRowsAgain = 128;

// Whether columns are too few to keep the threads of a CPU busy, so that each walk along them gets a kernel of its
// own (split_walks.h). Of many columns, a tile may stay in a core's cache from one walk to the next.
bool are_few_columns(Dim columns);

// Column sums beside rows (blocked_column_sums.h): how many rows a block walks, and whether a block can keep the
// sums of so many columns.
Dim rows_of_block(DimTable& dims, Dim rows, Target target);
bool adds_up_columns(Dim columns, Target target);

// ---- for the emitters ----
// A reduce over a whole tile of at most this many elements is unrolled completely.
inline constexpr int64_t kUnrolledTile = 8;
// Up to this stride between lanes, in elements, a load reads the elements in between as whole vectors too.
inline constexpr int64_t kWideStride = 8;
// Longer rows, in elements, leave the cache before they are used: no prefetch.
inline constexpr int64_t kLongestRowAhead = 16384;
// Full vectors of a simd axis that one step of its loop computes, a multiple of the accumulators. A body
// without loops is emitted statement by statement for all of them, so that chains of dependent instructions
// run side by side (a core holds the instructions of only two or three long bodies at once) and share the
// loads of constants. Long bodies compile longer and need more registers.
int vectors_at_once(const Stmt& loop);
// Shorter bodies of maps are emitted once more, for single full vectors: short rows need no masks for them.
inline constexpr size_t kMostForThreeLoops = 16;
// Steps that an accumulator of floats takes before it adds its block to the total.
inline constexpr int64_t kStepsOfBlock = 16;

// Most nodes of one kernel: keeps compile time near 10 ms and recursion shallow.
inline constexpr size_t kMaxGroupNodes = 160;
// Waking a thread pays from about this many simple operations on, a few microseconds of vector code.
inline constexpr int64_t kWorkPerThread = 16384;
// Fewest par iterations for which waking a thread pays, given the approximate number of scalar operations per
// iteration.
int64_t min_iterations_per_thread(int64_t operations_per_iteration);

}  // namespace tenon::jit
