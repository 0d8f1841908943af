// OfGroups: a node over groups of rows, which are products of different numbers of rows. Tested by
// tests/unit/backends/onednn_products_test.cc.
#pragma once

#include "backends/onednn/problem.h"

namespace tenon::onednn {

class OfGroups : public Executable {
 public:
  Operand ends;  // of the groups

  // The product of a group of `count` rows.
  virtual Problem of_rows(int64_t count, const Sizes& sizes) const = 0;
  bool may_fail() const override { return false; }
};

// Whether the node is a grouped_matmul or a grouped_outer.
bool is_of_groups(const Node& node);

// The executable of such a node. unsupported, with the reason: the library is not used for it.
Result<std::unique_ptr<OfGroups>> make_of_groups(const Graph& graph, ValueId v, const StridesOf& strides_of);

}  // namespace tenon::onednn
