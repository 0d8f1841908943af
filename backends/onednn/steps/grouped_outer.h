// grouped_outer: the rows of two matrices form groups, and each group is a product that sums over its rows. A run reads the ends of the
// groups from a tensor. A primitive of the library serves one number of rows, so a plan holds products of 1, 2, 3, 4, 6, 8, 12, ...
// rows. The rows of a group are copied, and zeros follow up to the next of these numbers.
// Tested by tests/unit/backends/onednn_products_test.cc.
#pragma once

#include "backends/onednn/problem.h"

namespace tenon::onednn {

class GroupedOuter final : public Executable {
 public:
  Operand a, b, ends, output;

  // The product of `count` copied rows.
  Spec of_rows(int64_t count) const;
  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override;
  bool may_fail() const override { return false; }
  std::string describe() const override { return "grouped_outer"; }
};

// unsupported, with the reason: the library is not used for this node.
Result<std::unique_ptr<GroupedOuter>> make_grouped_outer(const Graph& graph, ValueId v,
                                                         const StridesOf& strides_of);

}  // namespace tenon::onednn
