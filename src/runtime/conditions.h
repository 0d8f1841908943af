// Conditions: what symbols left open in a graph, asked again when a plan is made: slice bounds, windows, reshapes,
// something to gather from. Worked out once per program: nodes that no sizes can make wrong are left out, and of those
// that say the same one is kept, so that a plan of most graphs costs no inference at all.
// Tested by tests/conditions_test.cc.
#pragma once

#include <span>

#include "src/ir/graph.h"

namespace tenon {

class Conditions {
 public:
  Conditions() = default;
  explicit Conditions(const Graph& graph);
  // By symbol number. The messages are those of at_sizes (src/ops/eval.h).
  Status check(std::span<const int64_t> symbols) const;
  size_t nodes() const { return count_; }  // asked at every new set of sizes

 private:
  Graph open_;  // the nodes that are asked, their operands as inputs
  size_t count_ = 0;
};

}  // namespace tenon
