// See operand.h.
#include "src/ops/rules/operand.h"

#include "src/ir/group.h"
#include "src/ir/narrow.h"
#include "src/ir/op.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/view.h"

namespace tenon {

Operand stored_operand(const Graph& graph, ValueId v) {
  const TensorType& type = graph.type(v);
  Operand o;
  o.base = v;
  o.dtype = type.dtype;
  o.shape = type.shape;
  o.strides = dense_strides(*graph.dims, type.shape);
  if (graph.node(v).op == ops::constant)
    o.constant = attr_as<std::shared_ptr<ConstantData>>(graph.node(v), "data");
  return o;
}

Operand operand_of(const Graph& graph, ValueId v, const StridesOf& strides_of) {
  const auto view = view_of(graph, v, strides_of);
  if (!view) return stored_operand(graph, v);
  Operand o = stored_operand(graph, view->base);
  o.shape = graph.type(v).shape;
  o.strides = view->strides;
  o.offset = view->offset;
  return o;
}

std::optional<Dims> bound_strides(const Graph& graph, ValueId v) {
  if (op(graph.node(v).op).view || is_literal(graph, v)) return std::nullopt;
  for (const OutputBinding& out : graph.outputs)
    if (out.value == v && out.strides) return out.strides;
  return stored_strides(graph, v);
}

std::optional<double> number_of(const Graph& graph, ValueId v) {
  const DType dtype = graph.type(v).dtype;
  while (op(graph.node(v).op).view) v = graph.node(v).inputs[0];
  if (graph.node(v).op != ops::full) return std::nullopt;
  const double d = attr_as<Scalar>(graph.node(v), "value").as_double();
  const float f = static_cast<float>(d);
  return dtype == DType::f64 ? d : is_narrow(dtype) ? rounded(dtype, f) : f;
}

}  // namespace tenon
