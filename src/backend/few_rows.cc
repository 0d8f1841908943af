// See few_rows.h.
#include "src/backend/few_rows.h"

#include <algorithm>

#include "src/ir/op.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace {

// A library computes products of more rows as fast.
constexpr int64_t kMostRows = 4;
// A product with a smaller matrix is faster in one loop with its neighbours.
constexpr int64_t kLeastElements = 16 << 10;

// Whether the value is computed from a tensor of fewer bytes that has its elements.
bool is_widened(const Graph& graph, ValueId v) {
  const int64_t bytes = size_of(graph.type(v).dtype);
  const Dim elements = graph.dims->product(graph.type(v).shape);
  for (;;) {
    const Node& node = graph.node(v);
    if (size_of(node.type.dtype) < bytes) return true;
    const Op& row = op(node.op);
    if (row.kind != Kind::map && node.op != ops::transpose && node.op != ops::reshape) return false;
    const auto has_elements = [&](ValueId i) { return graph.dims->product(graph.type(i).shape) == elements; };
    if (std::ranges::count_if(node.inputs, has_elements) != 1) return false;
    v = *std::ranges::find_if(node.inputs, has_elements);
  }
}

bool is_product(const Node& node) { return node.op == ops::matmul || node.op == ops::linear; }

}  // namespace

bool is_of_quantized_matrix(const Graph& graph, const Node& node) {
  if (!is_product(node)) return false;
  const Dims &x = graph.type(node.inputs[0]).shape, &matrix = graph.type(node.inputs[1]).shape;
  return !x.empty() && matrix.size() == 2 && all_are(std::span(x).first(x.size() - 1), 1) &&
         is_widened(graph, node.inputs[1]);
}

std::string not_of_few_rows(const Graph& graph, const Node& node) {
  if (!is_product(node)) return std::string(op(node.op).name) + " is no product";
  const DType dtype = node.type.dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    return "a product of " + std::string(name(dtype));
  const Dims &x = graph.type(node.inputs[0]).shape, &matrix = graph.type(node.inputs[1]).shape;
  if (x.empty() || matrix.size() != 2) return "a batch of products, or a product with one vector";
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    if (!x[i].is_const()) return "the number of rows is not known";
    rows *= x[i].value();
    if (rows > kMostRows) return "a product of many rows";
  }
  if (!matrix[0].is_const() || !matrix[1].is_const()) return "the size of the matrix is not known";
  if (matrix[0].value() * matrix[1].value() < kLeastElements || matrix[0] == Dim(1) || matrix[1] == Dim(1))
    return "a product with a small matrix";
  if (is_of_quantized_matrix(graph, node)) return "a product of one row by a quantized matrix";
  return "";
}

}  // namespace tenon
