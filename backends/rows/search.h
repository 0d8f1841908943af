// search: where values belong in a sorted row, by halving it. Tested by tests/unit/backends/rows_test.cc.
#pragma once

#include <cstdint>

#include "src/ir/dtype.h"

namespace tenon::rows {

struct SearchRow {
  int64_t length = 0, stride = 0;  // of the sorted row, in elements
  int64_t values = 0, value_stride = 0, result_stride = 0;
};

using SearchFn = void (*)(const SearchRow& row, const void* sorted, const void* values, int64_t* result);
// right: behind the elements that equal the value, else in front of them.
SearchFn search_of(DType dtype, bool right);

}  // namespace tenon::rows
