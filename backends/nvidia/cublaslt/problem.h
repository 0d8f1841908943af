// Problem: a product of matrices at concrete sizes in cuBLASLt's terms: column-major matrices and one batch axis. BatchedCall: a
// spec at concrete sizes: a problem and, if the batch has more axes than the library takes, the calls with their offsets.
// Tested by tests/unit/backends/cublaslt_spec_test.cc.
#pragma once

#include <string>
#include <vector>

#include "backends/library/tensor.h"
#include "backends/nvidia/cublaslt/spec.h"

namespace tenon::cublaslt {

// Column-major: element (i, j) is at i + j * ld.
struct Matrix {
  int64_t rows = 0, columns = 0, ld = 0;
  int64_t batch_stride = 0;  // elements
  bool transposed = false;   // the operand is the transpose of this matrix
  friend bool operator==(const Matrix&, const Matrix&) = default;
};

// D = activation(alpha * op(A) * op(B) + beta * C + bias). The bias has one element per row of D.
struct Problem {
  DType dtype = DType::f32;
  bool tf32 = false, bias = false, added = false;
  Activation activation = Activation::none;
  int64_t batch = 1;
  Matrix a, b, c, d;  // without C, c equals d

  std::string key() const;  // equal for problems that one algorithm serves
  std::string text()
      const;  // "3 of 128x64x32 bf16, bias gelu": batch, rows, columns and K of the row-major product
};

struct BatchedCall {
  // Per matrix, in the order a, b, c, d.
  static constexpr int kMatrices = 4;
  struct Axis {
    int64_t count;
    int64_t bytes[kMatrices];  // step from one call to the next
  };

  bool empty = false;  // the result has no elements, so nothing runs
  Problem problem;
  std::vector<library::Place> places;  // of the matrices, then of the bias if there is one
  std::vector<Axis> outer;             // the first axis varies slowest
  // For an empty sum, both operands are this many bytes of zeros; otherwise 0.
  int64_t zeros = 0;
  double alpha = 1, beta = 0;

  int64_t calls() const;
  // Turns the library's batch axis into one more axis of calls.
  void unroll_batch();
};

// unsupported: strides overlap or are negative, or sizes exceed the library's range.
Result<BatchedCall> at_sizes(const Spec& spec, const Sizes& sizes);

}  // namespace tenon::cublaslt
