// See gradients.h. The gradient of attention. With the weights P, which are computed again:
//   dv = P^T dy,   dP = dy v^T,   dS = P * (dP - sum of dP * P over a row)
//   dq = scale * dS k,   dk = dS^T (scale * q)
// and dS is the gradient by the mask.
#include "src/ops/gradients/help.h"

namespace tenon::gradients {
namespace {

Expr times(Expr a, Expr b) { return call(ops::matmul, a, b); }

}  // namespace

Status attention(GradientContext& c) {
  const Terms t{c};
  const Dims swap = {Dim(0), Dim(2), Dim(1), Dim(3)};
  const bool last = attr_as<std::string>(c.node, "layout") == "heads_last";
  auto first = [&](Expr v) { return last ? transpose(v, swap) : v; };
  Node node = bodies::with_layout(c.node, "heads_first");
  for (size_t i = 0; i < 3; ++i) node.inputs[i] = first(t.given(i)).v;
  const Dims q_shape = c.b.shape(node.inputs[0]);
  const bodies::AttentionParts parts = bodies::attention_parts(c.b, node);
  const Expr weights{&c.b, parts.weights}, k{&c.b, parts.k}, v{&c.b, parts.v}, scaled{&c.b, parts.scaled};

  Dims rows = scaled.shape();
  rows[3] = v.shape()[3];
  const Expr dy = reshape(first(t.dy()), rows);
  give(c, 2, [&](const Terms&) { return first(times(swap_last(weights), dy)); });
  if (!t.wants(0) && !t.wants(1) && !t.wants(3)) return {};
  const Expr weighted = weights * times(dy, swap_last(v));
  const Expr scores = weighted - weights * fold(ops::sum, weighted, {Dim(-1)});
  give(c, 0, [&](const Terms&) {
    return first(reshape(times(scores, k) * attr_as<double>(node, "scale"), q_shape));
  });
  give(c, 1, [&](const Terms&) { return first(times(swap_last(scores), scaled)); });
  give(c, 3,
       [&](const Terms&) { return reshape(scores, {q_shape[0], q_shape[1], q_shape[2], k.shape()[2]}); });
  return {};
}

}  // namespace tenon::gradients
