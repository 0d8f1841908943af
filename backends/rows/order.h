// order: computes a stable argsort of a row, ascending or descending, or a contiguous part of it.
// Every element becomes an entry (key, index). No two entries are equal, so any sorting algorithm keeps equal elements in their
// order. Short rows are sorted by comparison (the shortest by short_orders.h), long rows by a least-significant-digit radix sort. If only
// a few positions are wanted, a heap finds those at the start of the order, and a histogram of the upper digits finds others.
// A selection is unsorted: it has the order in which std::nth_element leaves the wanted positions, as PyTorch's topk does.
// Tested by tests/unit/backends/rows_test.cc.
#pragma once

#include <cstdint>

#include "src/ir/dtype.h"

namespace tenon::rows {

inline constexpr int64_t kLongestRow = INT32_MAX;

struct OrderRow {
  int64_t length = 0;                     // elements
  int64_t start = 0, count = 0;           // the wanted positions of the sorted order
  int64_t stride = 0, result_stride = 0;  // in elements
  bool selects = false;                   // a selection is wanted, and start is 0
};

// Reads the row at x and writes the wanted indices to result. scratch: order_scratch() bytes.
using OrderFn = void (*)(const OrderRow& row, const void* x, int64_t* result, char* scratch);
OrderFn order_of(DType dtype, bool descending);
int64_t order_scratch(DType dtype, const OrderRow& row);

}  // namespace tenon::rows
