// short_orders: the order of rows of a few elements, without a loop for each row. An element's rank is the number of elements before it, and
// each position of the order finds the element of this rank. Kernels compare the elements of many rows at once, in lanes.
// Tested by tests/unit/backends/rows_test.cc.
#pragma once

#include "src/ir/builder.h"

namespace tenon::rows {

// Whether `node` is a sort_order of rows so short that comparing all pairs takes less time than sorting. A selection has another order.
bool is_short_order(const Graph& graph, const Node& node);
// The same order by ranks: i64, stable, NaN is the largest, and zeros of both signs are equal.
ValueId order_by_rank(Builder& b, const Node& node);

}  // namespace tenon::rows
