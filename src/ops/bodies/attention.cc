// See bodies.h. Attention and its gradient by their definitions: all scores, then their softmax.
#include <limits>

#include "src/ops/bodies/body_help.h"

namespace tenon::bodies {
namespace {

ValueId times(Builder& b, ValueId x, ValueId y) { return b(ops::matmul, {x, y}); }

// Returns the factor of the scores as a scalar of v's dtype.
ValueId scale_like(Builder& b, ValueId v, const AttentionTerms& terms) {
  if (!terms.scale.over_root) return like(b, v, terms.scale.number);
  const Dim size = b.shape(terms.q)[3];
  if (size.is_const()) return like(b, v, terms.scale.at(size.value()));
  const ValueId root = b(ops::sqrt, {b.size(size, DType::f64)});
  return b.cast(b(ops::div, {b.scalar(terms.scale.number, DType::f64), root}), dtype_of(b, v));
}

}  // namespace

ValueId swap_heads(Builder& b, ValueId v) { return transpose(b, v, {Dim(0), Dim(2), Dim(1), Dim(3)}); }

AttentionTerms attention_terms(Builder& b, const Node& node) {
  const bool last =
      node.op == ops::attention_gradient || attr_as<std::string>(node, "layout") == "heads_last";
  const auto first = [&](size_t i) { return last ? swap_heads(b, node.inputs[i]) : node.inputs[i]; };
  const auto [mask, kept] = attention_operands(node);
  const auto optional = [&](int i) { return i < 0 ? kNoValue : node.inputs[static_cast<size_t>(i)]; };
  const ValueId q = first(0), k = first(1), v = first(2);
  return {.q = q,
          .k = k,
          .v = v,
          .mask = optional(mask),
          .kept = optional(kept),
          .scale = attention_scale(node),
          .dropout = attr_as<double>(node, "dropout"),
          .causal = attr_as<bool>(node, "causal")};
}

// Heads that share k and v become rows of one matrix, [B, Hkv, G*L, D], so that no operand is repeated.
AttentionParts attention_parts(Builder& b, const AttentionTerms& terms) {
  const ValueId q = wide(b, terms.q), k = wide(b, terms.k), v = wide(b, terms.v);
  const DType dtype = dtype_of(b, q);
  const Dims qs = b.shape(q), ks = b.shape(k);
  const Dim batch = qs[0], heads = qs[1], length = qs[2], keys = ks[2];
  const bool grouped = ks[1] != heads;
  Dim rows = length;
  if (grouped) rows = b.dims().mul(*b.dims().divide(heads, ks[1]), length);

  ValueId scaled = b(ops::mul, {q, scale_like(b, q, terms)});
  if (grouped) scaled = b.reshape(scaled, {batch, ks[1], rows, qs[3]});
  ValueId scores = times(b, scaled, transpose_last(b, k));
  if (grouped) scores = b.reshape(scores, {batch, heads, length, keys});
  if (terms.mask != kNoValue) scores = b(ops::add, {scores, b.cast(terms.mask, dtype)});
  const ValueId nothing = like(b, q, -std::numeric_limits<double>::infinity());
  if (terms.causal) {
    const ValueId row =
        b(ops::iota, {}, {{"shape", Dims{length, Dim(1)}}, {"dtype", DType::i32}, {"axis", Dim(0)}});
    const ValueId column =
        b(ops::iota, {}, {{"shape", Dims{Dim(1), keys}}, {"dtype", DType::i32}, {"axis", Dim(1)}});
    scores = b(ops::where, {b(ops::le, {column, row}), scores, nothing});
  }
  // Softmax, except that a row of only -inf gives zeros: its shift is 0, and its sum 0 is replaced by 1.
  const Dims last = {Dim(-1)};
  const ValueId largest = fold(b, ops::max, scores, last);
  const ValueId shift = b(ops::where, {b(ops::eq, {largest, nothing}), like(b, q, 0), largest});
  const ValueId e = b(ops::exp, {b(ops::sub, {scores, shift})});
  const ValueId total = fold(b, ops::sum, e, last);
  const ValueId divisor = b(ops::where, {b(ops::eq, {total, like(b, q, 0)}), like(b, q, 1), total});
  const ValueId weights = b(ops::div, {e, divisor});
  ValueId kept = weights;
  if (terms.kept != kNoValue)
    kept = b(ops::mul,
             {weights, b(ops::where, {terms.kept, like(b, q, 1 / (1 - terms.dropout)), like(b, q, 0)})});
  const auto in_groups = [&](ValueId x) { return grouped ? b.reshape(x, {batch, ks[1], rows, keys}) : x; };
  return {scaled, k, v, in_groups(weights), in_groups(kept)};
}

ValueId add_heads_last(Builder& b, const Node& node, const std::vector<ValueId>& operands) {
  auto arranged = b.try_add(ops::attention, operands,
                            {{"causal", attr_as<bool>(node, "causal")},
                             {"scale", attr_as<double>(node, "scale")},
                             {"over_root", attr_as<bool>(node, "over_root")},
                             {"layout", std::string("heads_last")},
                             {"whole", attr_as<bool>(node, "whole")},
                             {"dropout", attr_as<double>(node, "dropout")}});
  TENON_CHECK(arranged.ok(), arranged.status().message());
  return *arranged;
}

ValueId attention_heads_last(Builder& b, Node node) {
  if (attr_as<std::string>(node, "layout") == "heads_last") return b.add(std::move(node));
  std::vector<ValueId> operands = node.inputs;
  for (size_t i = 0; i < 3; ++i) operands[i] = swap_heads(b, operands[i]);
  return swap_heads(b, add_heads_last(b, node, operands));
}

ValueId attention(Builder& b, const Node& node) {
  const AttentionTerms terms = attention_terms(b, node);
  const AttentionParts parts = attention_parts(b, terms);
  Dims shape = b.shape(terms.q);
  shape[3] = b.shape(parts.v)[3];
  const ValueId y = narrow(b, node, b.reshape(times(b, parts.kept_weights, parts.v), std::move(shape)));
  return attr_as<std::string>(node, "layout") == "heads_last" ? swap_heads(b, y) : y;
}

// With the weights P, which are computed again, and the kept weights K:
//   dv = K^T dy,   dK = dy v^T,   dS = K * dK - P * (sum of K * dK over a row)
//   dq = scale * dS k,   dk = dS^T (scale * q)
AttentionGradients attention_gradients(Builder& b, const AttentionTerms& terms, ValueId dy) {
  const AttentionParts parts = attention_parts(b, terms);
  const Dims q_shape = b.shape(terms.q);
  Dims rows = b.shape(parts.scaled), scores = q_shape;
  rows[3] = b.shape(parts.v)[3];
  scores[3] = b.shape(parts.k)[2];
  dy = b.reshape(wide(b, dy), rows);
  const ValueId dv = times(b, transpose_last(b, parts.kept_weights), dy);
  const ValueId weighted = b(ops::mul, {parts.kept_weights, times(b, dy, transpose_last(b, parts.v))});
  const ValueId total = fold(b, ops::sum, weighted, {Dim(-1)});
  const ValueId ds = b(ops::sub, {weighted, b(ops::mul, {parts.weights, total})});
  const ValueId dq = b(ops::mul, {times(b, ds, parts.k), scale_like(b, ds, terms)});
  return {b.reshape(dq, q_shape), times(b, transpose_last(b, ds), parts.scaled), dv, b.reshape(ds, scores)};
}

ValueId attention_gradient(Builder& b, const Node& node) {
  const AttentionTerms terms = attention_terms(b, node);
  const AttentionGradients d = attention_gradients(b, terms, swap_heads(b, node.inputs[3]));
  const auto flat = [&](ValueId of) {
    const ValueId y = swap_heads(b, narrow(b, node, of));
    return b.reshape(y, {b.dims().product(b.shape(y))});
  };
  const ValueId dq = flat(d.q), dk = flat(d.k), dv = flat(d.v);
  return b(ops::concat, {dq, dk, dv}, {{"axis", Dim(0)}});
}

}  // namespace tenon::bodies
