// Products of few rows by a matrix that is read in place: each element of the matrix is used once per row, so memory decides. On the
// calling thread; f32 sums, in the instruction set that kernels use. Tested by tests/unit/backends/few_rows_test.cc.
#pragma once

#include <cstdint>

#include "src/ir/dtype.h"

namespace tenon::inner {

// y = bias + x * matrix.
struct FewRows {
  const float* x;  // rows with dense elements
  int64_t x_stride, rows;
  const void* matrix;  // f32, bf16 or f16 [depth, columns]; one of its strides is 1
  DType dtype;
  int64_t stride, column_stride;  // elements, along the depth and from column to column
  int64_t depth;
  const float* bias;  // of each column; null: zeros
  int64_t bias_stride;
  float* y;  // rows with dense elements
  int64_t y_stride;
  // If rows of the matrix are dense: whether the rows that are added at a time are far apart, as suits a range of all columns, or
  // neighbours. The order of sums depends on it.
  bool far = false;
};

// Column blocks of this size have the same sums, wherever the range that has them begins.
constexpr int64_t kColumnBlock = 16;

// Computes the columns from `from` on, a multiple of kColumnBlock, to `end`.
void multiply(const FewRows& product, int64_t from, int64_t end);

}  // namespace tenon::inner
