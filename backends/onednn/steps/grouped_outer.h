// grouped_outer: the rows of two matrices form groups, and each group is a product that sums over its rows. A run reads the ends of the
// groups from a tensor. A primitive of the library serves one number of rows, so a plan holds products of 1, 2, 3, 4, 6, 8, 12, ...
// rows. The rows of a group are copied, and zeros follow up to the next of these numbers.
// Tested by tests/unit/backends/onednn_products_test.cc.
#pragma once

#include "backends/onednn/steps/of_groups.h"

namespace tenon::onednn {

class GroupedOuter final : public OfGroups {
 public:
  Spec one;  // the product of copied rows
  Operand a, b, output;

  Problem of_rows(int64_t count, const Sizes& sizes) const override;
  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override;
  std::string describe() const override { return "grouped_outer"; }
};

// Called by make_of_groups().
std::unique_ptr<OfGroups> make_grouped_outer(const Graph& graph, ValueId v, const StridesOf& strides_of);

}  // namespace tenon::onednn
