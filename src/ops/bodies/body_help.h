// Helper functions of several bodies. "Wide" means the dtype in which the arithmetic runs: f32 for 16-bit
// floats. Tested by tests/unit/ops/table_test.cc.
#pragma once

#include "src/ops/bodies/bodies.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/attention.h"

namespace tenon::bodies {

inline DType dtype_of(Builder& b, ValueId v) { return b.type(v).dtype; }
inline ValueId wide(Builder& b, ValueId v) { return b.cast(v, compute_type(dtype_of(b, v))); }
// Casts the result of wide arithmetic back to the dtype of the node's first operand.
inline ValueId narrow(Builder& b, const Node& node, ValueId v) {
  return b.cast(v, dtype_of(b, node.inputs[0]));
}
// The same for sums of products. A kernel that reads the result again reads it as it was before the cast, as a kernel does with results of
// 16-bit maps, so that a product followed by other maps is rounded once.
inline ValueId narrow_products(Builder& b, const Node& node, ValueId v) {
  const DType dtype = dtype_of(b, node.inputs[0]);
  return dtype_of(b, v) == dtype ? v : b(ops::cast, {v}, {{"dtype", dtype}, {"rounds", false}});
}
// A literal of v's dtype.
inline ValueId like(Builder& b, ValueId v, double value) { return b.scalar(value, dtype_of(b, v)); }
// A size as a literal of v's dtype.
inline ValueId count(Builder& b, ValueId v, Dim size) {
  return size.is_const() ? like(b, v, static_cast<double>(size.value())) : b.size(size, dtype_of(b, v));
}
inline ValueId transpose(Builder& b, ValueId v, Dims perm) {
  return b(ops::transpose, {v}, {{"perm", std::move(perm)}});
}
// Swaps the last two axes.
ValueId transpose_last(Builder& b, ValueId v);
inline bool has(const Node& node, size_t operand) { return node.inputs.size() > operand; }

// Folds the axes with `row`; the axes stay with size 1.
ValueId fold(Builder& b, OpId row, ValueId v, const Dims& axes);
// How many elements are folded into one (no axes: all elements).
Dim folded(Builder& b, ValueId v, const Dims& axes);
// The sum over the axes divided by their count; the axes stay with size 1.
ValueId average(Builder& b, ValueId v, const Dims& axes);
// Reshapes a vector so that it lies along one axis of a tensor of the given rank: [C] -> [1,C,1,1].
ValueId along(Builder& b, ValueId vector, int rank, int axis);
// The permutation from channels_last [N,S...,C] to channels_first [N,C,S...], and its inverse.
Dims to_channels_first(int rank);
Dims to_channels_last(int rank);
// Whether the attribute layout is "channels_last".
bool is_channels_last(const Node& node);
// A copy of the node with another attribute layout.
Node with_layout(const Node& node, const std::string& layout);
// A copy of the node on x in channels_first, which the bodies of convolution and pooling require.
Node channels_first(Builder& b, const Node& node);

// x with the windows along one axis behind its axes: [.., positions, .., size].
ValueId windows_along(Builder& b, ValueId x, int axis, Dim size, Dim stride = 1, Dim dilation = 1);
// The windows of adaptive pooling along an axis whose size is no multiple of their number: window i covers floor(i * size / windows) to
// ceil((i + 1) * size / windows). An element j lies in the windows that a pooling of `windows` elements to `size` would give to j.
struct UnevenWindows {
  ValueId starts, counts;  // i64 [windows]
  Dim longest;             // no count is larger
};
UnevenWindows uneven_windows(Builder& b, Dim size, Dim windows);
// The sum over each of these windows along an axis of x.
ValueId sum_of_uneven(Builder& b, ValueId x, int axis, const UnevenWindows& windows);

// Operands of attention with heads first, and its attributes.
struct AttentionTerms {
  ValueId q, k, v;
  ValueId mask, kept;  // kNoValue if there is none
  AttentionScale scale;
  double dropout;
  bool causal;
};
// Reads the terms of a node of the row attention or attention_gradient.
AttentionTerms attention_terms(Builder& b, const Node& node);
// The intermediate values of attention, in wide arithmetic. Heads that share k and v are rows of one matrix: scaled is [B, Hkv, rows, D], weights
// [B, Hkv, rows, keys].
struct AttentionParts {
  ValueId scaled, k, v;  // scaled: q times the scale
  ValueId weights;       // of each key in each row
  ValueId kept_weights;  // after dropout; without it, the weights
};
AttentionParts attention_parts(Builder& b, const AttentionTerms& terms);
// The gradients of the operands with heads first, in wide arithmetic, for the gradient dy of the result; scores [B,H,L,S]: the gradient of
// q k^T * scale + mask.
struct AttentionGradients {
  ValueId q, k, v, scores;
};
AttentionGradients attention_gradients(Builder& b, const AttentionTerms& terms, ValueId dy);
// Exchanges the axes of heads and of positions.
ValueId swap_heads(Builder& b, ValueId v);
// The attention of a node on other operands, which have the layout heads_last. Returns its result in this layout.
ValueId add_heads_last(Builder& b, const Node& node, const std::vector<ValueId>& operands);
// The same attention with layout heads_last, and its result with the axes of `node`.
ValueId attention_heads_last(Builder& b, Node node);

}  // namespace tenon::bodies
