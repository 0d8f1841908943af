// schedule: how the loops of a lowered group run. The only place that knows tile sizes, unroll factors and grain.
// Pure functions of the loop axes and the accesses; no machine is needed to test them. Tested by tests/unit/jit/schedule_test.cc.
#pragma once

#include <vector>

#include "jit/analysis/index.h"
#include "jit/kernel/target.h"

namespace tenon::jit {

struct Access {
  Index address;  // in elements
  bool store = false;
};

// Which loops there are in the end.
struct Schedule {
  std::vector<std::vector<uint32_t>>
      classes;              // axes merged into one loop each, outermost first; in domain order
  std::vector<int> par;     // classes of the par nest, outermost first
  std::vector<int> inner;   // classes of every inner loop, outermost first
  bool simd_par = false;    // the last par class runs across lanes (column and flat kernels)
  bool simd_inner = false;  // the last inner class does (row kernels, nested maps)
};

// Loops of so few iterations leave lanes idle: they are the vector's only if there is no other.
inline constexpr int64_t kNarrow = 8;
bool is_narrow(Dim extent);
Dim merged_extent(DimTable& dims, const std::vector<LoopAxis>& axes, const std::vector<uint32_t>& merged);

// fixed[a]: axis a must keep a loop of its own (its variable is used as a value).
// carried: the inner axes are sequential (scan): they never run across lanes and never merge.
Schedule schedule(DimTable& dims, const std::vector<LoopAxis>& axes, const std::vector<Access>& accesses,
                  const std::vector<bool>& fixed, bool carried);

// Whether a value that several loops over a row compute is kept in a local of a row's length instead.
struct Recomputed {
  bool expensive;        // the op itself
  int64_t stream_bytes;  // of an element's operands in memory that are as large as the value
};
bool keeps_row(Recomputed value, Dim row, const Dims& par);

// Independent accumulators of a vector reduction whose body has `statements` scalar statements.
int reduce_unroll(size_t statements);

// Column reductions (tile.h). A tile of columns makes long runs of each row and keeps its sums in L1; as many
// rows in a block as blocks in some thousand rows.
inline constexpr int64_t kColumnTile = 256, kRowsPerBlock = 64;
// Rows that are summed in registers before their sum joins that of the block, by the size of the body.
int64_t rows_per_visit(size_t statements);

// Transposing maps (tile.h): elements of a tile along the axis that lanes jump over, and along the lanes' own.
inline constexpr int64_t kTransposeAcross = 16, kTransposeAlong = 64;
bool tiles_transposed(Dim across, Dim along);

// Elements of a part if a reduction of `elements` (rows, where columns run across lanes) is to run as two kernels, parts
// first (split_reduction.h); 0 for one kernel. par: the axes that are left. inner: elements that the reduction goes through for each,
// where it runs over two axes that others lie between; those are split on a GPU only. again: what is folded is gone through once
// more behind it; on a GPU something may keep such rows, where they are many.
int64_t reduction_part(const Dims& par, Dim elements, bool columns, Target target = Target::cpu,
                       Dim inner = Dim(1), bool again = false);

// The same of rows of a GPU of which a sum follows a maximum (join_online_reductions.h): so few and long ones that they leave it idle otherwise.
int64_t online_part(const Dims& par, Dim elements);

// Columns of more rows are walked along no more than once on a GPU (split_reduction.h).
inline constexpr int64_t kMostRowsAgain = 128;

// Rows beside which columns are added up on a GPU (blocked_column_sums.h): how many of them a block goes through, and whether it can keep
// the sums of so many columns.
Dim rows_of_block(DimTable& dims, Dim rows);
bool adds_up_columns(Dim columns);

// ---- what the emitters ask ----
// A reduce over a whole tile of no more elements has no loop.
inline constexpr int64_t kUnrolledTile = 8;
// Up to this many elements from lane to lane, what lies between is loaded too.
inline constexpr int64_t kWideStride = 8;
// Rows of more elements leave the cache before they are used: none is asked for ahead of time.
inline constexpr int64_t kLongestRowAhead = 16384;
// Vectors of a simd loop that are done side by side, by the statements of its body (a lane-by-lane one counts as
// kMostForFour): long bodies cost more to compile and need more registers.
inline constexpr int kMostForFour = 64, kMostForTwo = 128;
constexpr int vectors_at_once(int statements) {
  return statements <= kMostForFour ? 4 : statements <= kMostForTwo ? 2 : 1;
}

// Nodes one kernel may hold: keeps compile time near 10 ms and recursion shallow.
inline constexpr size_t kMaxGroupNodes = 160;
// Par iterations that are worth a second thread, given roughly how many scalar operations one iteration does.
int64_t min_iterations_per_thread(int64_t operations_per_iteration);

}  // namespace tenon::jit
