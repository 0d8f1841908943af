// How the operands of a library call should lie in memory. Tested by tests/unit/backends/onednn_products_test.cc and
// onednn_convolutions_test.cc.
#pragma once

#include <optional>

#include "src/ir/graph.h"

namespace tenon::onednn {

// Strides to assume while groups form: every value that is not a view is dense.
std::optional<Dims> draft_strides(const Graph& graph, ValueId v);

// Whether the elements of this axis lie next to each other.
bool is_dense_along(const Graph& graph, ValueId v, size_t axis);

// See Backend::reads().
bool is_read_in_place(const Graph& graph, ValueId v, ValueId operand);

}  // namespace tenon::onednn
