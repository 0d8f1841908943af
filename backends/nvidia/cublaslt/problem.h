// Problem: a product of matrices at concrete sizes, as cuBLASLt takes it: matrices stored by columns, one batch axis. BatchedCall:
// a spec at sizes: a problem, and how often it is called and where, when the batch has more axes than the library.
// Tested by tests/unit/backends/cublaslt_spec_test.cc.
#pragma once

#include <string>
#include <vector>

#include "backends/nvidia/cublaslt/spec.h"
#include "src/runtime/backend.h"

namespace tenon::cublaslt {

// Column-major: element (i, j) stands at i + j * ld.
struct Matrix {
  int64_t rows = 0, columns = 0, ld = 0;
  int64_t batch_stride = 0;  // elements
  bool transposed = false;   // as an operand
  friend bool operator==(const Matrix&, const Matrix&) = default;
};

// D = activation(alpha * op(A) * op(B) + beta * C + bias), bias along the rows of D.
struct Problem {
  DType dtype = DType::f32;
  bool tf32 = false, bias = false, added = false;
  Activation activation = Activation::none;
  int64_t batch = 1;
  Matrix a, b, c, d;  // c is d where nothing is added

  std::string key() const;  // equal for problems that one algorithm serves
  std::string text()
      const;  // "3 of 128x64x32 bf16, bias gelu"; rows, columns and sum of the row-major result
};

struct BatchedCall {
  // Per matrix, in the order a, b, c, d.
  static constexpr int kMatrices = 4;
  struct Axis {
    int64_t count;
    int64_t bytes[kMatrices];  // from one call to the next
  };

  bool empty = false;  // no elements: nothing to run
  Problem problem;
  int buffers[kMatrices] = {-1, -1, -1, -1};
  int64_t offsets[kMatrices] = {};  // bytes
  int bias_buffer = -1;
  int64_t bias_offset = 0;
  std::vector<Axis> outer;  // the first one turns slowest
  // A sum over nothing: both operands are these bytes of zeros; 0: there are terms.
  int64_t zeros = 0;
  double alpha = 1, beta = 0;

  int64_t calls() const;
  // The library's batch axis becomes one of calls.
  void unroll_batch();
};

// unsupported: strides that overlap or run backwards, sizes beyond what the library counts.
Result<BatchedCall> at_sizes(const Spec& spec, const Sizes& sizes);

}  // namespace tenon::cublaslt
