// See tiny_batch.h.
#include "src/backend/tiny_batch.h"

#include "src/ir/op.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/operand.h"
#include "src/ops/rules/view.h"

namespace tenon {
namespace {

constexpr int64_t kLeastBatch = 16;

// Whether the products along the last axis of the batch share a matrix b, and their matrices a lie one behind the other. They are one
// product of more rows, which a library computes as fast.
bool is_one_product(const Graph& graph, const Node& node) {
  const Dims &a = graph.type(node.inputs[0]).shape, &b = graph.type(node.inputs[1]).shape;
  const Dims& y = node.type.shape;
  size_t behind = 2;  // axes from the axis on
  while (++behind < y.size() && y[y.size() - behind] == Dim(1)) {
  }
  if (behind > a.size() || (b.size() >= behind && b[b.size() - behind] != Dim(1))) return false;
  const auto view = view_of(graph, node.inputs[0], [&](ValueId x) { return bound_strides(graph, x); });
  if (!view) return true;  // it is stored densely first
  const Dims& strides = view->strides;
  return strides[a.size() - behind] == graph.dims->mul(strides[a.size() - 2], a[a.size() - 2]);
}

std::string not_tiny(const Graph& graph, const Node& node) {
  if (node.op != ops::matmul) return std::string(op(node.op).name) + " is no product of two batches";
  const DType dtype = node.type.dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return "a product of " + std::string(name(dtype));
  const Dims &a = graph.type(node.inputs[0]).shape, &b = graph.type(node.inputs[1]).shape;
  const Dims& y = node.type.shape;
  if (a.size() < 2 || b.size() < 2 || y.size() < 3) return "no batch of products";
  const Dim rows = y[y.size() - 2], columns = y.back(), depth = a.back();
  for (const Dim size : {rows, columns, depth})
    if (!size.is_const() || size.value() < 1 || size.value() > kMostTiny)
      return "the matrices are not known to be tiny";
  if (rows == Dim(1) || columns == Dim(1)) return "products of one row or column";
  const Dim batch = graph.dims->product(std::span(y).first(y.size() - 2));
  if (batch.is_const() && batch.value() < kLeastBatch) return "a small batch";
  return "";
}

}  // namespace

bool is_tiny_batch(const Graph& graph, const Node& node) { return not_tiny(graph, node).empty(); }

std::string not_of_tiny_batch(const Graph& graph, const Node& node) {
  std::string why = not_tiny(graph, node);
  if (why.empty() && node.type.dtype == DType::f32 && is_one_product(graph, node))
    why = "the products share a matrix";
  return why;
}

}  // namespace tenon
