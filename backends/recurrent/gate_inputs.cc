// See gate_inputs.h. A thread owns some of the columns. It goes through all rows for one panel, which stays in the caches.
#include "backends/recurrent/gate_inputs.h"

#include "backends/recurrent/matrix.h"
#include "backends/recurrent/product.h"
#include "src/base/align.h"
#include "src/ops/rows/names.h"

namespace tenon::recurrent {
namespace {

constexpr int64_t kItem = sizeof(float);
constexpr int64_t kProductsPerThread = 1 << 16;  // fewer do not pay for waking a thread

bool follows(const Graph& graph, ValueId v) {
  for (ValueId r = v + 1; r < graph.nodes.size(); ++r) {
    if (graph.node(r).op != ops::recurrent) continue;
    ValueId x = graph.node(r).inputs[0];
    while (x > v && op(graph.node(x).op).view) x = graph.node(x).inputs[0];
    if (x == v) return true;
  }
  return false;
}

// Whether all axes but the last can be walked along as one.
bool has_one_stride(const Graph& graph, const Operand& x) {
  if (x.strides.back() != Dim(1)) return false;
  for (size_t a = 0; a + 2 < x.shape.size(); ++a)
    if (x.strides[a] != graph.dims->mul(x.strides[a + 1], x.shape[a + 1])) return false;
  return true;
}

class GateInputsStep final : public Step {
 public:
  PlacedOperand x, result;
  Columns columns;
  int64_t rows = 0;
  int threads = 1;

  // The last block, if it is not whole, is computed in scratch memory; packed panels lie behind it.
  int64_t last_bytes() const {
    return columns.size % panel_width() ? align_up(rows * panel_width() * kItem) : 0;
  }
  int64_t scratch_bytes() const override {
    return last_bytes() + (columns.needs_packing() ? columns.floats() * kItem : 0);
  }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this); }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    Product p{this,
              columns.in_run(buffers, reinterpret_cast<float*>(scratch + last_bytes()), threads, on.parallel),
              x.of(buffers), result.of(buffers), reinterpret_cast<float*>(scratch)};
    on.parallel.run(columns.blocks(), threads, multiply, &p);
    return {};
  }

 private:
  struct Product {
    const GateInputsStep* step;
    Columns::Memory matrix;
    const float* x;
    float *y, *last;
  };
  static void multiply(void* arg, int, int64_t begin, int64_t end) {
    const Product& p = *static_cast<const Product*>(arg);
    const GateInputsStep& s = *p.step;
    const int64_t width = panel_width(), size = s.columns.size, stride = s.x.strides[s.x.strides.size() - 2];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t count = std::min(width, size - block * width);
      float* y = p.y + block * width;
      const bool whole = count == width;
      s.columns.multiply(p.matrix, p.x, stride, s.rows, block, 0, whole ? y : p.last, whole ? size : width);
      for (int64_t r = 0; !whole && r < s.rows; ++r) std::copy_n(p.last + r * width, count, y + r * size);
    }
  }
};

class GateInputs final : public Executable {
 public:
  Operand x, result;
  std::optional<Matrix> matrix;
  Allocator allocator;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<GateInputsStep>();
    step->x = PlacedOperand(x, sizes);
    step->result = PlacedOperand(result, sizes);
    step->rows = 1;
    for (size_t a = 0; a + 1 < step->x.shape.size(); ++a) step->rows *= step->x.shape[a];
    step->columns = matrix->at(sizes, step->rows, allocator);
    const int64_t work = step->rows * step->columns.size * step->columns.depth / kProductsPerThread;
    step->threads = static_cast<int>(std::clamp<int64_t>(work, 1, sizes.threads));
    return std::unique_ptr<Step>(std::move(step));
  }
  bool may_fail() const override { return false; }
  std::string describe() const override { return "inputs of gates, by packed panels"; }
};

}  // namespace

Bid bid_for_gate_inputs(const Graph& graph, ValueId v) {
  constexpr double kCost = 0.4;  // less than a library's
  if (!follows(graph, v)) return {false, 0, "no recurrent node reads the product"};
  const Node& node = graph.node(v);
  for (const ValueId i : node.inputs)
    if (graph.type(i).dtype != DType::f32) return {false, 0, "not all of it is f32"};
  if (std::ranges::any_of(graph.outputs, [&](const OutputBinding& o) { return o.value == v; }))
    return {false, 0, "the product is a result of the graph too"};
  const Operand x = operand_of(graph, node.inputs[0], [&](ValueId u) { return bound_strides(graph, u); });
  if (x.shape.size() < 2 || !has_one_stride(graph, x))
    return {false, 0, "rows of x do not follow one another"};
  return {true, kCost, "by the packed panels of a recurrent layer"};
}

Result<std::unique_ptr<Executable>> make_gate_inputs(const BuildContext& context, ValueId v) {
  const Graph& g = context.graph;
  const Node& node = g.node(v);
  auto e = std::make_unique<GateInputs>();
  e->inputs = inputs_of(g, {&v, 1});
  e->outputs = {v};
  e->allocator = context.allocator;
  const auto operand = [&](size_t i) {
    Operand o = operand_of(g, node.inputs[i], [&](ValueId u) { return context.strides_of(u); });
    o.buffer = e->position_of(o.base);
    return o;
  };
  e->x = operand(0);
  if (!has_one_stride(g, e->x)) return unsupported("rows of x that do not follow one another");
  e->matrix.emplace(operand(1), node.inputs.size() > 2 ? std::optional(operand(2)) : std::nullopt, 1);
  e->result = stored_operand(g, v);
  e->result.buffer = static_cast<int>(e->inputs.size());
  return std::unique_ptr<Executable>(std::move(e));
}

}  // namespace tenon::recurrent
