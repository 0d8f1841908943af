// Problem: a spec at concrete sizes, in the axis order of the library: matmul as (batch, M, K) with as few batch axes
// as the strides allow, convolutions and poolings as N, C, then space, weights as (groups,) O, I, then space.
// Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include <string>

#include "backends/onednn/spec.h"
#include "src/runtime/backend.h"

namespace tenon::onednn {

struct Array {
  std::vector<int64_t> dims, strides;  // elements
  DType dtype = DType::f32;
  int64_t offset = 0;  // bytes
  int operand = -1;    // of the spec; -1: the output
  bool zero = false;   // stands for an operand without elements: zeros of these dims, nothing is read
  bool any = false;    // the library chooses where the elements lie

  int64_t count() const;
  bool present() const { return operand >= -1 && !dims.empty(); }
};

struct Problem {
  Form form = Form::matmul;
  bool empty = false;  // no output elements: nothing to do
  Array source, weights, bias, output;
  std::vector<PostOp> post_ops;  // operand: index in `others`
  std::vector<Array> others;
  std::vector<int64_t> kernel, strides, low, high, dilations;
  bool include_pad = true;
  int threads = 1;

  std::string key() const;  // equal for calls that one primitive serves
};

// Matmul weights that are constants may lie as the library likes: they are packed once. A convolution of 1x1 by weights that
// are not is a product.
Problem at_sizes(const Spec& spec, const Sizes& sizes);
// A product of one matrix with constant weights, said as a convolution of 1x1: rows are pixels, columns channels. Nothing
// where it is none of these. The same post-ops in the same order.
std::optional<Problem> as_convolution(const Problem& matmul);
// The same product in a batch of one. The library has code for some post-ops in a batch of batches only.
std::optional<Problem> in_one_batch(const Problem& matmul);
// Row-major strides, or those with the second axis innermost.
std::vector<int64_t> plain_strides(const std::vector<int64_t>& dims, bool channels_last);

}  // namespace tenon::onednn
