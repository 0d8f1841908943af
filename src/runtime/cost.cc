// See cost.h.
#include "src/runtime/cost.h"

#include <algorithm>

#include "src/ir/op.h"
#include "src/ops/rows/names.h"

namespace tenon {

double Cost::elements(ValueId v) const {
  double n = 1;
  for (const Dim d : g_.type(v).shape) n *= size(d);
  return n;
}

double Cost::bytes(ValueId v) const { return elements(v) * size_of(g_.type(v).dtype); }

double Cost::operations(ValueId v) const {
  const Node& node = g_.node(v);
  if (node.op == ops::matmul || node.op == ops::linear) {
    const Dims& first = g_.type(node.inputs[0]).shape;
    return 2 * elements(v) * (first.empty() ? 1 : size(first.back()));
  }
  if (node.op == ops::attention) {  // two products over all columns, masked ones too
    const Dims& k = g_.type(node.inputs[1]).shape;
    const bool heads_last = attr_as<std::string>(node, "layout") == "heads_last";
    return 4 * elements(node.inputs[0]) * size(k[k.size() - (heads_last ? 3 : 2)]);
  }
  if (node.op == ops::attention_gradient)  // five products, likewise
    return 10 * elements(node.inputs[0]) * size(g_.type(node.inputs[1]).shape[1]);
  const auto columns = [&](size_t i) { return size(g_.type(node.inputs[i]).shape.back()); };
  // The products of the states, for each step.
  if (node.op == ops::recurrent) {
    const double projection = node.inputs.size() > 5 ? elements(node.inputs[5]) : 0;
    return 2 * elements(node.inputs[0]) * (columns(2) + projection / columns(0));
  }
  if (node.op == ops::recurrent_gradient)
    return 2 * elements(node.inputs[0]) * size(g_.type(node.inputs[3]).shape[0]);
  switch (op(node.op).kind) {
    case Kind::input:
    case Kind::move:
    case Kind::opaque: return 0;
    case Kind::map:
    case Kind::composite: return elements(v);
    case Kind::reduce:
    case Kind::scan: return elements(node.inputs[0]);
    case Kind::contract: break;
  }
  // Each result, each element of x if it is transposed, and each element of dy takes the products of one row of weights.
  const auto by_weights = [&](ValueId of, ValueId weights) {
    return 2 * elements(of) * elements(weights) / std::max(size(g_.type(weights).shape[0]), 1.0);
  };
  if (node.op == ops::convolution)
    return by_weights(attr_as<bool>(node, "transposed") ? node.inputs[0] : v, node.inputs[1]);
  if (node.op == ops::convolution_weight_gradient) return by_weights(node.inputs[1], v);
  return elements(node.inputs[0]);
}

}  // namespace tenon
