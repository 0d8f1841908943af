// See products.h. A group is one node.
#include "backends/products/products.h"

#include <algorithm>

#include "backends/products/panels.h"
#include "backends/products/step.h"
#include "backends/products/tiny.h"
#include "src/backend/few_rows.h"
#include "src/backend/tiny_batch.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/view.h"
#include "src/ops/rules/windows.h"

namespace tenon::products {
namespace {

class Product final : public Executable {
 public:
  Operand x, matrix, bias, y;
  bool has_bias = false;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    if (y.dtype == DType::f64) return planned(std::make_unique<PanelsStep>(), sizes);
    auto step = std::make_unique<FewRowsStep>();
    step->dtype = y.dtype;
    return planned(std::move(step), sizes);
  }
  bool may_fail() const override { return false; }
  std::string describe() const override {
    if (y.dtype == DType::f64) return "product of f64, by packed panels of columns";
    return "product of few rows, by a matrix whose " +
           std::string(matrix.strides[0] == Dim(1) ? "columns" : "rows") + " are dense";
  }

 private:
  template <class Made>
  std::unique_ptr<Step> planned(std::unique_ptr<Made> step, const Sizes& sizes) const {
    step->x = PlacedOperand(x, sizes);
    step->matrix = PlacedOperand(matrix, sizes);
    if (has_bias) step->bias = PlacedOperand(bias, sizes);
    step->y = PlacedOperand(y, sizes);
    step->plan(sizes.threads);
    return step;
  }
};

class TinyBatch final : public Executable {
 public:
  Operand a, b, y;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<TinyBatchStep>();
    step->dtype = y.dtype;
    step->a = PlacedOperand(a, sizes);
    step->b = PlacedOperand(b, sizes);
    step->y = PlacedOperand(y, sizes);
    step->plan(sizes.threads);
    return std::unique_ptr<Step>(std::move(step));
  }
  bool may_fail() const override { return false; }
  std::string describe() const override {
    const auto size = [](Dim d) { return std::to_string(d.value()); };
    const size_t rank = y.shape.size();
    return "batch of tiny products of " + std::string(name(y.dtype)) + ", each " + size(y.shape[rank - 2]) +
           "x" + size(a.shape.back()) + " by " + size(a.shape.back()) + "x" + size(y.shape.back());
  }
};

// Products with fewer columns, or of shorter sums, are as fast in loops, which take their neighbours too.
constexpr int64_t kLeast = 8;

// Empty if panels compute the product; otherwise the reason why not.
std::string not_by_panels(const Graph& graph, const Node& node) {
  constexpr int64_t kLeastRows = 5;
  if (node.op != ops::matmul && node.op != ops::linear)
    return std::string(op(node.op).name) + " is no product";
  if (node.type.dtype != DType::f64) return "a product of " + std::string(name(node.type.dtype));
  const Dims &x = graph.type(node.inputs[0]).shape, &matrix = graph.type(node.inputs[1]).shape;
  if (x.size() < 2 || matrix.size() < 2) return "a product with one vector";
  const auto below = [](Dim d, int64_t least) { return d.is_const() && d.value() < least; };
  const auto rows = std::span(x).first(x.size() - 1);  // of one product
  if (below(matrix.size() > 2 ? rows.back() : graph.dims->product(rows), kLeastRows) ||
      below(x.back(), kLeast) || below(node.type.shape.back(), kLeast))
    return "a small product";
  return "";
}

// Whether the node multiplies each pixel of an image whose channels are innermost by one matrix of f64. Layout makes products of planes if
// all convolutions of a graph are like this and read channels first.
bool multiplies_pixels(const Graph& graph, const Node& node) {
  if (node.op != ops::convolution || node.type.dtype != DType::f64 ||
      attr_as<std::string>(node, "layout") != "channels_last")
    return false;
  const Dims& weights = graph.type(node.inputs[1]).shape;
  const auto large = [&](Dim channels) { return !channels.is_const() || channels.value() >= kLeast; };
  return has_windows_of_one(graph, node) && all_are(attr_as<Dims>(node, "strides"), 1) && large(weights[0]) &&
         large(weights[1]);
}

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
    const Node& node = graph.node(v);
    if (not_of_tiny_batch(graph, node).empty())
      return {true, 0.25,
              "a batch of tiny matrices: a library needs longer to begin each product than to compute it"};
    if (multiplies_pixels(graph, node)) return {true, 0.25, "a product of pixels and a matrix"};
    const bool wide = node.type.dtype == DType::f64;
    const std::string why = wide ? not_by_panels(graph, node) : not_of_few_rows(graph, node);
    if (!why.empty()) return {false, 0, why};
    return {true, 0.25,
            wide ? "a product of f64, which no library computes"
                 : "few rows: the rate of the memory that holds the matrix decides"};
  }
  ValueId legalize(Builder& b, Node node) const override {
    if (!multiplies_pixels(b.graph(), node)) return b.add(std::move(node));
    const Dims weights = b.shape(node.inputs[1]);
    ValueId matrix = b.reshape(node.inputs[1], {weights[0], weights[1]});
    if (attr_as<bool>(node, "transposed"))
      matrix = b(ops::transpose, {matrix}, {{"perm", Dims{Dim(1), Dim(0)}}});
    if (node.inputs.size() > 2) return b(ops::linear, {node.inputs[0], matrix, node.inputs[2]});
    return b(ops::linear, {node.inputs[0], matrix});
  }
  bool reads(const Graph& graph, ValueId node, ValueId operand) const override {
    if (graph.node(node).inputs[1] != operand || graph.type(node).dtype == DType::f64 ||
        is_tiny_batch(graph, graph.node(node)))
      return true;
    const auto strides = matrix_strides(graph, graph.node(node));
    return strides && ((*strides)[0] == Dim(1) || (*strides)[1] == Dim(1));
  }
  Bid joins(const Graph&, const Uses&, std::span<const ValueId>, ValueId) const override {
    return {false, 0, "nothing joins a product of this back end"};
  }

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const ValueId v = members.back();
    const Node& node = context.graph.node(v);
    if (is_tiny_batch(context.graph, node)) return tiny_batch(context, members);
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
  std::string describe() const override {
    return "products of few rows, at the rate of the memory, batches of tiny products, and products of f64";
  }

 private:
  static std::unique_ptr<Executable> tiny_batch(const BuildContext& context,
                                                std::span<const ValueId> members) {
    const ValueId v = members.back();
    const Node& node = context.graph.node(v);
    auto e = std::make_unique<TinyBatch>();
    e->inputs = inputs_of(context.graph, members);
    e->outputs = {v};
    e->a = inner::operand_in(context, *e, node, 0);
    e->b = inner::operand_in(context, *e, node, 1);
    e->y = inner::result_in(context, *e, v);
    return e;
  }
};

}  // namespace
}  // namespace tenon::products

namespace tenon {

Backend& products_backend() { return immortal<products::ProductsBackend>(); }

}  // namespace tenon
