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
  if (node.op == ops::convolution) {
    const ValueId weight = node.inputs[1];  // its first axis is that of the outputs
    return 2 * elements(v) * elements(weight) / std::max(size(g_.type(weight).shape[0]), 1.0);
  }
  return elements(node.inputs[0]);
}

}  // namespace tenon
