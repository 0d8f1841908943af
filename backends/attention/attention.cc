// See attention.h. A group is one node: q, y, dy [B,L,H,D], k and v [B,S,H,D].
#include "backends/attention/attention.h"

#include <algorithm>

#include "backends/attention/gradient_step.h"
#include "backends/attention/step.h"
#include "backends/inner/dense_rows.h"
#include "src/base/cpu.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/bodies/body_help.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/attention.h"
#include "src/ops/rules/operand.h"
#include "src/ops/rules/view.h"

namespace tenon::attention {
namespace {

// Both rows have these operands and attributes.
struct Terms {
  Operand q, k, v;
  std::optional<Operand> mask, kept;
  DType dtype = DType::f32;
  AttentionScale scale;
  double dropout = 0;
  bool causal = false;

  // Stride of the mask along columns; nullopt without a mask.
  std::optional<Dim> mask_column() const {
    if (!mask) return {};
    const bool repeated = mask->shape.empty() || mask->shape.back() == Dim(1);
    return repeated ? Dim(0) : mask->strides.back();
  }
  std::string describe() const {
    return std::string(causal ? ", causal" : "") + (mask ? ", with a mask" : "") +
           (kept ? ", with dropout" : "") + ", in blocks of scores\n";
  }
};

// Sets the members that both steps have. Operands without dense rows get copies.
template <class S>
void place(const Terms& terms, const Sizes& sizes, S& step, inner::DenseRows& dense) {
  step.causal = terms.causal;
  step.element = size_of(terms.dtype);
  step.q = PlacedOperand(terms.q, sizes);
  step.k = PlacedOperand(terms.k, sizes);
  step.v = PlacedOperand(terms.v, sizes);
  for (PlacedOperand* operand : {&step.q, &step.k, &step.v}) dense.require(*operand, step.element);
  step.batch = step.q.shape[0];
  step.rows = step.q.shape[1];
  step.heads = step.q.shape[2];
  step.depth = step.q.shape[3];
  step.scale = static_cast<float>(terms.scale.at(step.depth));
  step.keys = step.k.shape[1];
  step.width = step.v.shape[3];
  if (terms.kept) step.kept = PlacedOperand(*terms.kept, sizes);
  dense.require(step.kept, sizeof(bool));
  step.gain = static_cast<float>(1 / (1 - terms.dropout));
  if (!terms.mask) return;
  step.mask = PlacedOperand(*terms.mask, sizes);
  step.mask_strides.assign(4, 0);  // axes that the mask lacks, or has once, are repeated
  const size_t rank = step.mask.shape.size();
  for (size_t i = 0; i < rank; ++i)
    if (step.mask.shape[i] != 1) step.mask_strides[4 - rank + i] = step.mask.strides[i];
}

class AttentionNode final : public Executable {
 public:
  Terms terms;
  Operand result;
  Kernels kernels;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<AttentionStep>();
    inner::DenseRows dense(inputs.size() + outputs.size());
    step->kernels = &kernels;
    step->dtype = terms.dtype;
    place(terms, sizes, *step, dense);
    step->y = PlacedOperand(result, sizes);
    if (step->k.shape[2] > 0) step->heads_per_key = step->heads / step->k.shape[2];
    if (step->rows == 1 && step->heads_per_key > 1 && !terms.causal) join_heads(*step);
    TENON_TRY(step->plan(sizes.threads));
    return std::move(dense).before(std::move(step));
  }
  bool may_fail() const override { return false; }
  std::string describe() const override {
    return "attention" + terms.describe() + kernels.whole->kernel().describe();
  }

 private:
  // Heads that share k and v become rows, if each has one row.
  static void join_heads(AttentionStep& step) {
    const int64_t group = step.heads_per_key;
    const auto join = [&](int64_t& row, int64_t& head) {
      row = head;
      head *= group;
    };
    join(step.q.strides[1], step.q.strides[2]);
    join(step.y.strides[1], step.y.strides[2]);
    if (step.mask.used()) join(step.mask_strides[2], step.mask_strides[1]);
    if (step.kept.used()) join(step.kept.strides[2], step.kept.strides[1]);
    step.rows = group;
    step.heads /= group;
    step.heads_per_key = 1;
  }
};

class GradientNode final : public Executable {
 public:
  Terms terms;
  Operand dy, result;
  GradientKernels kernels;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<GradientStep>();
    inner::DenseRows dense(inputs.size() + outputs.size());
    step->kernels = &kernels;
    place(terms, sizes, *step, dense);
    step->dy = PlacedOperand(dy, sizes);
    dense.require(step->dy, step->element);
    step->gradient = PlacedOperand(result, sizes);
    step->key_heads = step->k.shape[2];
    TENON_TRY(step->plan(sizes.threads));
    return std::move(dense).before(std::move(step));
  }
  bool may_fail() const override { return false; }
  std::string describe() const override {
    return "gradient of attention" + terms.describe() + kernels.softmax->kernel().describe();
  }
};

// The executable of a node, with its terms, its result and its kernels.
template <class E>
Result<std::unique_ptr<E>> made(const BuildContext& context, std::span<const ValueId> members) {
  const Node& node = context.graph.node(members.back());
  auto e = std::make_unique<E>();
  e->inputs = inputs_of(context.graph, members);
  e->outputs = {members.back()};
  const auto operand = [&](size_t i) { return inner::operand_in(context, *e, node, i); };
  const auto optional = [&](int i) -> std::optional<Operand> {
    if (i < 0) return {};
    return operand(static_cast<size_t>(i));
  };
  const auto [mask, kept] = attention_operands(node);
  e->terms.q = operand(0);
  e->terms.k = operand(1);
  e->terms.v = operand(2);
  e->terms.mask = optional(mask);
  e->terms.kept = optional(kept);
  e->terms.dtype = node.type.dtype;
  e->terms.scale = attention_scale(node);
  e->terms.dropout = attr_as<double>(node, "dropout");
  e->terms.causal = attr_as<bool>(node, "causal");
  e->result = inner::result_in(context, *e, members.back());
  const Spec spec{e->terms.dtype, e->terms.mask_column(), e->result.strides.back(), e->terms.causal,
                  kept >= 0};
  TENON_ASSIGN(e->kernels, decltype(e->kernels)::make(spec, context.allocator));
  e->kernels_compiled = e->kernels.compiled();
  return e;
}

bool dense_elements(const Graph& graph, ValueId v) {
  const auto view = view_of(graph, v, [&](ValueId x) { return bound_strides(graph, x); });
  return view && (view->strides.back() == Dim(1) || graph.type(v).shape.back() == Dim(1));
}

class AttentionBackend final : public Backend {
 public:
  std::string_view name() const override { return "attention"; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Node& node = graph.node(v);
    if (node.op != ops::attention && node.op != ops::attention_gradient)
      return {false, 0, std::string(op(node.op).name) + " is no attention"};
    const DType dtype = node.type.dtype;
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
      return {false, 0, "attention of " + std::string(tenon::name(dtype))};
    const int kept = attention_operands(node).kept;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (static_cast<int>(i) != kept && graph.type(node.inputs[i]).dtype != dtype)
        return {false, 0, "operands of different dtypes"};
    if (dtype == DType::bf16 && cpu_lacks("amx-bf16").empty() && find_backend("onednn"))
      return {false, 0, "attention of bf16, whose products this CPU's tiles compute faster"};
    return {true, 1, "blocks of scores stay in the cache"};
  }
  ValueId legalize(Builder& b, Node node) const override {
    return node.op == ops::attention ? bodies::attention_heads_last(b, std::move(node))
                                     : b.add(std::move(node));
  }
  bool reads(const Graph& graph, ValueId node, ValueId operand) const override {
    const std::vector<ValueId>& operands = graph.node(node).inputs;
    const auto at = std::find(operands.begin(), operands.end(), operand) - operands.begin();
    return at == attention_operands(graph.node(node)).mask || dense_elements(graph, operand);
  }
  Bid joins(const Graph&, const Uses&, std::span<const ValueId>, ValueId) const override {
    return {false, 0, "nothing joins attention"};
  }

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const Node& node = context.graph.node(members.back());
    if (node.op == ops::attention_gradient) {
      TENON_ASSIGN(auto e, made<GradientNode>(context, members));
      e->dy = inner::operand_in(context, *e, node, 3);
      return std::unique_ptr<Executable>(std::move(e));
    }
    TENON_CHECK(attr_as<std::string>(node, "layout") == "heads_last", "attention that was not arranged");
    TENON_ASSIGN(auto e, made<AttentionNode>(context, members));
    return std::unique_ptr<Executable>(std::move(e));
  }
  std::string describe() const override { return "attention, in blocks of scores"; }
};

}  // namespace
}  // namespace tenon::attention

namespace tenon {

Backend& attention_backend() { return immortal<attention::AttentionBackend>(); }

}  // namespace tenon
