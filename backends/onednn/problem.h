// Problem: a spec at concrete sizes, in the axis order of the library: matmul as (batch, M, K) with as few batch axes as the
// strides allow; convolution and pooling as N, C, spatial axes; weights as (groups,) O, I, spatial axes.
// Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include <string>

#include "backends/library/tensor.h"
#include "backends/onednn/spec.h"

namespace tenon::onednn {

using library::plain_strides;

struct Array : library::Tensor {
  int operand = -1;   // index into Spec::operands; -1: the output
  bool zero = false;  // replaces an operand without elements: zeros of these dims; no memory is read
  bool any = false;   // the library chooses the layout

  bool present() const { return operand >= -1 && !dims.empty(); }
};

struct Problem {
  Form form = Form::matmul;
  bool empty = false;  // there are no output elements, so nothing runs
  Array source, weights, bias, output;
  std::vector<PostOp> post_ops;  // their `operand` is an index into `others`
  std::vector<Array> others;
  std::vector<int64_t> kernel, strides, low, high, dilations;
  int64_t groups = 1;
  bool include_pad = true;
  int threads = 1;  // the most that the library may use

  std::string key() const;  // equal for calls that one primitive serves
};

// Constant matmul weights get `any`, since they are packed once. A 1x1 convolution whose weights are not constant becomes a
// product.
Problem at_sizes(const Spec& spec, const Sizes& sizes);
// The product of one matrix with constant weights as a 1x1 convolution: rows become pixels, columns become channels. Post-ops
// stay the same. Nothing if the problem is no such product.
std::optional<Problem> as_convolution(const Problem& matmul);
// The same batched product with one more batch axis, of size 1. For some post-ops the library has code only with two batch axes.
// Nothing if the problem is no batched product.
std::optional<Problem> in_one_batch(const Problem& matmul);

}  // namespace tenon::onednn
