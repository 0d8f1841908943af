// search: finds the insertion positions of values in a sorted row by binary search. Tested by tests/unit/backends/rows_test.cc.
#pragma once

#include <cstdint>

#include "src/ir/dtype.h"

namespace tenon::rows {

struct SearchRow {
  int64_t length = 0, stride = 0;  // of the sorted row, in elements
  // The number of values, and the strides of values and results in elements.
  int64_t values = 0, value_stride = 0, result_stride = 0;
};

using SearchFn = void (*)(const SearchRow& row, const void* sorted, const void* values, int64_t* result);
// right: the position is behind the elements that equal the value; otherwise it is in front of them.
SearchFn search_of(DType dtype, bool right);

}  // namespace tenon::rows
