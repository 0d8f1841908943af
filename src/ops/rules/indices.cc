// See indices.h.
#include "src/ops/rules/indices.h"

#include "src/ir/op.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace {

bool holds_indices(const TensorType& type) { return type.dtype == DType::i32 || type.dtype == DType::i64; }

const Node& behind_views(const Graph& g, ValueId v) {
  while (op(g.node(v).op).view) v = g.node(v).inputs[0];
  return g.node(v);
}

// Also behind casts between types that hold numbers up to 2^31.
const Node& behind_casts(const Graph& g, ValueId v) {
  auto keeps = [&](const Node& n) {
    return op(n.op).view ||
           (n.op == ops::cast && holds_indices(n.type) && holds_indices(g.type(n.inputs[0])));
  };
  while (keeps(g.node(v))) v = g.node(v).inputs[0];
  return g.node(v);
}

// Whether the node clamps its operand to numbers in [0, size).
bool is_cut(const Graph& g, const Node& node, int64_t size) {
  auto bound = [&](ValueId v) {
    const Node& n = behind_casts(g, v);
    if (n.op != ops::full) return false;
    const Scalar value = attr_as<Scalar>(n, "value");
    return value.is_int && value.i >= 0 && value.i < size;
  };
  // cut(n, by): the operand that `by` (minimum or maximum) clamps with a constant bound.
  auto cut = [&](const Node& n, OpId by) -> std::optional<ValueId> {
    if (n.op != by || !holds_indices(n.type)) return std::nullopt;
    for (int i : {0, 1})
      if (bound(n.inputs[i])) return n.inputs[1 - i];
    return std::nullopt;
  };
  for (auto [outer, inner] : {std::pair{ops::minimum, ops::maximum}, std::pair{ops::maximum, ops::minimum}})
    if (const auto rest = cut(node, outer); rest && cut(behind_casts(g, *rest), inner)) return true;
  return false;
}

bool is_size(const Node& node, Dim size) {
  if (node.op == ops::dim) return attr_as<Dim>(node, "value") == size;
  if (node.op != ops::full || !size.is_const()) return false;
  const Scalar value = attr_as<Scalar>(node, "value");
  return value.is_int && value.i == size.value();
}

}  // namespace

std::optional<Dim> indexed_size(const Graph& graph, const Node& node) {
  if (node.op != ops::gather && node.op != ops::take_along && node.op != ops::scatter &&
      node.op != ops::index_put)
    return std::nullopt;
  const Dims& shape = graph.type(node.inputs[0]).shape;
  if (shape.empty()) return Dim(1);
  const int64_t axis = attr_int(node, "axis");
  return shape[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis)];
}

bool is_index_into(const Graph& graph, ValueId v, Dim size) {
  const Node& node = behind_views(graph, v);
  if (node.op == ops::index_in && is_size(behind_views(graph, node.inputs[1]), size)) return true;
  return size.is_const() && size.value() <= int64_t{1} << 31 &&
         is_cut(graph, behind_casts(graph, v), size.value());
}

}  // namespace tenon
