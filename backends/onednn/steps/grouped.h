// grouped_matmul: the rows of one matrix form groups, and each group is multiplied by its own matrix. A run reads the ends of the
// groups from a tensor. A primitive of the library serves one number of rows, so a plan holds products of 1, 2, 4, ... rows. A
// group takes one or two of them; the second may compute some rows of the first again.
// Tested by tests/unit/backends/onednn_products_test.cc.
#pragma once

#include "backends/onednn/steps/of_groups.h"

namespace tenon::onednn {

class Grouped final : public OfGroups {
 public:
  Spec one;  // the product of all rows and one matrix
  Dim rows;
  Dim step;  // elements from one matrix to the next

  Problem of_rows(int64_t count, const Sizes& sizes) const override;
  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override;
  std::string describe() const override { return "grouped_matmul"; }
};

// Called by make_of_groups().
std::unique_ptr<OfGroups> make_grouped(const Graph& graph, ValueId v, const StridesOf& strides_of);

}  // namespace tenon::onednn
