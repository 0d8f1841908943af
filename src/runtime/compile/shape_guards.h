// ShapeGuards: the conditions on sizes that could not be decided for symbols, checked when a plan is made:
// slice bounds, windows, reshapes, a gather from an empty axis. Computed once per program. Nodes that no
// sizes can make invalid are left out, and of nodes with the same condition one is kept. For most of the rest
// it is enough that certain sizes are not negative; if all nodes are such and the sizes are fine, a plan
// costs no inference at all. The equalities that the graph assumes are checked first; if one does not hold,
// the answer for these sizes is `unsupported`. Tested by tests/unit/runtime/shape_guards_test.cc.
#pragma once

#include <span>

#include "src/ir/graph.h"

namespace tenon {

class ShapeGuards {
 public:
  ShapeGuards() = default;
  explicit ShapeGuards(const Graph& graph);
  // The symbols are by symbol number. The messages are those of at_sizes (src/ops/eval/eval.h).
  Status check(std::span<const int64_t> symbols) const;
  size_t nodes() const { return count_; }  // nodes with an open condition

 private:
  Graph open_;  // the open nodes, their operands as inputs
  size_t count_ = 0;
  Dims needs_;        // sizes; if none is negative, these nodes are valid
  bool ask_ = false;  // the condition of some open node is more than needs_
  std::vector<DimTable::Equality> assumptions_;
};

}  // namespace tenon
