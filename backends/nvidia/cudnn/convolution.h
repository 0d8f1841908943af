// A convolution as a call of cuDNN. The library takes dense tensors in one of two orders, N C space or N space C, and weights as
// O I space or O space I accordingly. Other operands are copied first. Loops add the bias, together with the nodes that follow.
// Tested by tests/unit/backends/cudnn_spec_test.cc.
#pragma once

#include "backends/nvidia/cudnn/problem.h"
#include "src/ir/builder.h"

namespace tenon::cudnn {

struct Convolution {
  bool transposed = false, channels_last = false;
  std::vector<int64_t> low, high, strides, dilations;
};

struct ConvolutionSpec : Convolution {
  DType dtype = DType::f32;
  bool tf32 = false;  // TF32 is allowed; only for f32
  Operand x, w, y;    // shapes of x and y are N, C, spatial axes, whatever the layout
};

// Computes y from x and w. A transposed convolution is the gradient with respect to the input of the convolution that computes x
// from y.
struct ConvolutionProblem final : Problem, Convolution {
  std::vector<int64_t> x, w, y;  // dims

  std::string key() const override;
  // "2x64x56x56 by 128x64x3x3 bf16, stride 2x2 pad 1x1"
  std::string text() const override;
  Status describe(Operations& operations) const override;
};

// Whether the library reads this operand (0: x, 1: the weights) in place.
bool reads_in_place(const Graph& graph, const Node& node, int operand, const StridesOf& strides_of);
// The spec of a convolution without a bias. Assumes that operands that are not read in place are copied first. unsupported: the
// library cannot express the convolution.
Result<ConvolutionSpec> make_spec(const Graph& graph, ValueId convolution, const StridesOf& strides_of);
// Rewrites a convolution before groups form: weights, and an input of the graph, are copied if they lie in an order that the
// library does not take, and the bias becomes an addition.
ValueId legalize(Builder& b, Node node, const StridesOf& strides_of);

PlacedProblem at_sizes(const ConvolutionSpec& spec, const Sizes& sizes);

}  // namespace tenon::cudnn
