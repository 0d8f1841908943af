// order: the places of a row's elements from the smallest (or largest) on, equals as they stand, or a part of that list.
// A row becomes entries of key and place, of which no two are equal: whatever sorts them keeps equals in order. All of a long row
// goes through a radix sort, digit by digit from the lowest; of a few places the first ones are kept in a heap, others found by
// counting upper digits.
// Tested by tests/unit/backends/rows_test.cc.
#pragma once

#include <cstdint>

#include "src/ir/dtype.h"

namespace tenon::rows {

inline constexpr int64_t kLongestRow = INT32_MAX;

struct OrderRow {
  int64_t length = 0;                     // elements
  int64_t start = 0, count = 0;           // the places asked for, of all in order
  int64_t stride = 0, result_stride = 0;  // in elements
};

// Reads a row from x on, writes its order to result; scratch: order_scratch() bytes.
using OrderFn = void (*)(const OrderRow& row, const void* x, int64_t* result, char* scratch);
OrderFn order_of(DType dtype, bool descending);
int64_t order_scratch(DType dtype, const OrderRow& row);

}  // namespace tenon::rows
