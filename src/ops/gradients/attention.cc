// See gradients.h. The gradient of attention: the row attention_gradient, or its nodes if the gradient of the mask is wanted.
#include "src/ops/rules/attention.h"
#include "src/ops/gradients/help.h"

namespace tenon::gradients {
namespace {

// The gradients of q, k and v with heads last, from the vector that has them one after the other.
std::vector<Expr> split(const Expr& all, const std::vector<Expr>& operands) {
  std::vector<Expr> parts;
  DimTable& dims = all.b->dims();
  Dim begin = 0;
  for (const Expr& x : operands) {
    const Dim end = dims.add(begin, dims.product(x.shape()));
    parts.push_back(
        reshape(call(ops::slice, all, {{"axis", Dim(0)}, {"start", begin}, {"end", end}}), x.shape()));
    begin = end;
  }
  return parts;
}

}  // namespace

Status attention(GradientContext& c) {
  const Terms t{c};
  const bool last = attr_as<std::string>(c.node, "layout") == "heads_last";
  const auto turned = [&](ValueId v) { return bodies::swap_heads(c.b, v); };
  const auto given_last = [&](ValueId v) { return Expr{&c.b, last ? v : turned(v)}; };
  if (attention_operands(c.node).mask == 3 && t.wants(3)) {
    const bodies::AttentionGradients d =
        bodies::attention_gradients(c.b, bodies::attention_terms(c.b, c.node), last ? turned(c.dy) : c.dy);
    const ValueId parts[] = {d.q, d.k, d.v};
    for (size_t i = 0; i < 3; ++i)
      give(c, i, [&](const Terms&) { return Expr{&c.b, last ? turned(parts[i]) : parts[i]}; });
    set(c, 3, {&c.b, d.scores});
    return {};
  }
  std::vector<Expr> operands;
  for (size_t i = 0; i < 3; ++i) operands.push_back(given_last(c.node.inputs[i]));
  std::vector<ValueId> all = {operands[0].v, operands[1].v, operands[2].v, given_last(c.dy).v};
  all.insert(all.end(), c.node.inputs.begin() + 3, c.node.inputs.end());
  auto gradient = c.b.try_add(ops::attention_gradient, std::move(all),
                              {{"causal", attr_as<bool>(c.node, "causal")},
                               {"scale", attr_as<double>(c.node, "scale")},
                               {"over_root", attr_as<bool>(c.node, "over_root")},
                               {"dropout", attr_as<double>(c.node, "dropout")}});
  TENON_TRY(gradient.status());
  const std::vector<Expr> parts = split({&c.b, *gradient}, operands);
  for (size_t i = 0; i < 3; ++i)
    give(c, i, [&](const Terms&) { return last ? parts[i] : Expr{&c.b, turned(parts[i].v)}; });
  return {};
}

}  // namespace tenon::gradients
