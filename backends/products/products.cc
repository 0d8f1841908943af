// See products.h. A group is one node.
#include "backends/products/products.h"

#include <algorithm>

#include "backends/products/step.h"
#include "src/backend/few_rows.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/view.h"

namespace tenon::products {
namespace {

class Product final : public Executable {
 public:
  Operand x, matrix, bias, y;
  bool has_bias = false;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<FewRowsStep>();
    step->dtype = y.dtype;
    step->x = PlacedOperand(x, sizes);
    step->matrix = PlacedOperand(matrix, sizes);
    if (has_bias) step->bias = PlacedOperand(bias, sizes);
    step->y = PlacedOperand(y, sizes);
    step->plan(sizes.threads);
    return std::unique_ptr<Step>(std::move(step));
  }
  bool may_fail() const override { return false; }
  std::string describe() const override {
    return "product of few rows, by a matrix whose " +
           std::string(matrix.strides[0] == Dim(1) ? "columns" : "rows") + " are dense";
  }
};

// The strides of the matrix as [K,N]; nullopt if it is stored first.
std::optional<Dims> matrix_strides(const Graph& graph, const Node& node) {
  const auto view = view_of(graph, node.inputs[1], [&](ValueId x) { return bound_strides(graph, x); });
  if (!view) return std::nullopt;
  Dims strides = view->strides;
  if (node.op == ops::linear) std::swap(strides[0], strides[1]);
  return strides;
}

class ProductsBackend final : public Backend {
 public:
  std::string_view name() const override { return "products"; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const std::string why = not_of_few_rows(graph, graph.node(v));
    return why.empty() ? Bid{true, 0.25, "few rows: the rate of the memory that holds the matrix decides"}
                       : Bid{false, 0, why};
  }
  bool reads(const Graph& graph, ValueId node, ValueId operand) const override {
    if (graph.node(node).inputs[1] != operand) return true;
    const auto strides = matrix_strides(graph, graph.node(node));
    return strides && ((*strides)[0] == Dim(1) || (*strides)[1] == Dim(1));
  }
  Bid joins(const Graph&, const Uses&, std::span<const ValueId>, ValueId) const override {
    return {false, 0, "nothing joins a product of few rows"};
  }

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const ValueId v = members.back();
    const Node& node = context.graph.node(v);
    auto e = std::make_unique<Product>();
    e->inputs = inputs_of(context.graph, members);
    e->outputs = {v};
    e->x = inner::operand_in(context, *e, node, 0);
    e->matrix = inner::operand_in(context, *e, node, 1);
    if (node.op == ops::linear) {
      std::swap(e->matrix.shape[0], e->matrix.shape[1]);
      std::swap(e->matrix.strides[0], e->matrix.strides[1]);
    }
    e->has_bias = node.inputs.size() > 2;
    if (e->has_bias) e->bias = inner::operand_in(context, *e, node, 2);
    e->y = inner::result_in(context, *e, v);
    return std::unique_ptr<Executable>(std::move(e));
  }
  std::string describe() const override { return "products of few rows, at the rate of the memory"; }
};

}  // namespace
}  // namespace tenon::products

namespace tenon {

Backend& products_backend() { return immortal<products::ProductsBackend>(); }

}  // namespace tenon
