// Products of many pairs of tiny matrices, on the calling thread. The sums are in the order of the depth. f32 and f64, in the
// instruction set that kernels use. Tested by tests/unit/backends/tiny_products_test.cc.
#pragma once

#include <cstdint>

#include "src/backend/tiny_batch.h"

namespace tenon::inner {

template <class T>
struct TinyMatrices {
  T* at;
  int64_t row, column, next;  // from a row, a column, a matrix to the next, in elements
};
// y = a * b for `count` matrices a [rows, depth] and b [depth, columns]; of at most kMostTiny rows, columns
// and summands and at least two columns.
template <class T>
struct TinyProducts {
  TinyMatrices<const T> a, b;
  TinyMatrices<T> y;
  int64_t count, rows, depth, columns;
};
void multiply(const TinyProducts<float>& products);
void multiply(const TinyProducts<double>& products);

}  // namespace tenon::inner
