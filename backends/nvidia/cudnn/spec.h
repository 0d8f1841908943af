// Spec: a convolution in cuDNN's words while sizes are symbols. The library takes tensors whose axes all lie in one of two
// orders, N C space or N space C, the weights' O I space or O space I likewise; what lies otherwise is stored for it, and a
// bias is added by loops, with what follows. Tested by tests/unit/backends/cudnn_spec_test.cc.
#pragma once

#include "src/ir/builder.h"
#include "src/ops/operand.h"

namespace tenon::cudnn {

struct Spec {
  DType dtype = DType::f32;
  bool tf32 = false;  // may be used; of f32 alone
  bool transposed = false, channels_last = false;
  Operand x, w, y;  // shapes of x and y: N, C, then space, whatever the layout
  std::vector<int64_t> low, high, strides, dilations;
};

// Whether the library takes this operand (0: x, 1: the weights) as it lies.
bool reads_in_place(const Graph& graph, const Node& node, int operand, const StridesOf& strides_of);
// Of a convolution without a bias. Operands that are not read in place are taken to be stored for it; unsupported where the
// library has no words for the rest.
Result<Spec> make_spec(const Graph& graph, ValueId convolution, const StridesOf& strides_of);
// What a convolution becomes before groups form: weights are copied into the order that the library takes, where they lie in
// another, as is an input of the graph with strides that it does not take, and the bias is an addition.
ValueId legalize(Builder& b, Node node, const StridesOf& strides_of);

}  // namespace tenon::cudnn
