// ShapeGuards: what symbols left open in a graph, asked again when a plan is made: slice bounds, windows, reshapes,
// something to gather from. Worked out once per program: nodes that no sizes can make wrong are left out, and of those
// that say the same one is kept. Of most that stay it is known which sizes must not be negative; where all are as they must
// be, a plan costs no inference at all. The equalities that the graph assumes are asked first: where one does not hold,
// the program is not made for these sizes (`unsupported`). Tested by tests/unit/runtime/shape_guards_test.cc.
#pragma once

#include <span>

#include "src/ir/graph.h"

namespace tenon {

class ShapeGuards {
 public:
  ShapeGuards() = default;
  explicit ShapeGuards(const Graph& graph);
  // By symbol number. The messages are those of at_sizes (src/ops/eval.h).
  Status check(std::span<const int64_t> symbols) const;
  size_t nodes() const { return count_; }  // left open

 private:
  Graph open_;  // the open nodes, their operands as inputs
  size_t count_ = 0;
  Dims needs_;        // not negative: nothing is wrong
  bool ask_ = false;  // some open node has more to it than needs_
  std::vector<DimTable::Equality> assumptions_;
};

}  // namespace tenon
