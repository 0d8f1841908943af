// Rules: the named shape and type rules that rows refer to. A rule reads operand types and attributes and returns the sizes
// or the dtype of the result, or a Status that names the node, its operands and their types.
//
// Symbolic sizes: two sizes agree if their normal forms are equal. Sizes that differ whatever the symbols are `invalid`.
// Sizes that merely cannot be shown to agree (N and M, N and 4) are `unsupported`, unless the host claims the result's
// shape: then the host knows that they agree, and the rule notes the equality (Claim in src/ir/op.h). Conditions of order
// or divisibility (slice bounds, windows, reshape) fail if constants break them and pass while they are symbolic; at_sizes
// (src/ops/eval/eval.h) checks them again once the sizes are known. Tested by tests/unit/ops/ops_test.cc.
#pragma once

#include "src/ir/op.h"

namespace tenon {

// The axis in [0, rank), or nullopt. A scalar counts as a vector of one element: for axis 0 or -1 the answer
// is 0.
std::optional<int> normal_axis(int64_t axis, int rank);
// The listed axes as one flag per axis; an empty list means all axes. Fails if an axis is out of range or
// listed twice.
Result<std::vector<bool>> axis_flags(const std::vector<int64_t>& axes, int rank);
// NumPy broadcasting of two shapes. `behind`: how many axes of the result follow the last axis of the shapes.
// The head of this file explains symbols. A size that is not known to be 1 must equal the size that it meets,
// unless that cannot be.
Result<Dims> broadcast_shapes(const InferContext& c, const Dims& a, const Dims& b, size_t behind = 0);

namespace shapes {
Result<Dims> declared(InferContext& c);     // input: the shape is in the node
Result<Dims> constant(InferContext& c);     // attribute shape; data has as many elements
Result<Dims> from_shape(InferContext& c);   // attribute shape
Result<Dims> iota(InferContext& c);         // attributes shape, axis
Result<Dims> seeded(InferContext& c);       // attribute shape; operand 0 is a scalar
Result<Dims> scalar(InferContext& c);       // []
Result<Dims> same(InferContext& c);         // operand 0's shape
Result<Dims> same_axis(InferContext& c);    // operand 0's shape; attribute axis is one of its axes
Result<Dims> broadcast(InferContext& c);    // of all operands
Result<Dims> reduce(InferContext& c);       // attributes axes, keepdims
Result<Dims> reduce_axis(InferContext& c);  // attributes axis, keepdims
Result<Dims> reshape(InferContext& c);
Result<Dims> transpose(InferContext& c);
Result<Dims> expand(InferContext& c);
Result<Dims> slice(InferContext& c);
Result<Dims> windows(InferContext& c);
Result<Dims> flip(InferContext& c);
Result<Dims> concat(InferContext& c);
Result<Dims> pad(InferContext& c);
Result<Dims> gather(InferContext& c);
Result<Dims> take_along(InferContext& c);
Result<Dims> scatter(InferContext& c);
Result<Dims> index_put(InferContext& c);
Result<Dims> sort_order(InferContext& c);  // attributes axis, start, end
Result<Dims> search(InferContext& c);  // operand 1's; operand 0 is a vector or matches but for the last axis
// [T,B,G*H], [B,P], [G*H,P], [G*H], [B,H]?, [P,H]?; attributes mode, cell
Result<Dims> recurrent(InferContext& c);
Result<Dims> recurrent_gradient(InferContext& c);
Result<Dims> matmul(InferContext& c);
Result<Dims> grouped_matmul(InferContext& c);  // [M,K], [G], [G,K,N]
Result<Dims> grouped_outer(InferContext& c);   // [M,K], [G], [M,N]
Result<Dims> linear(InferContext& c);
Result<Dims> convolution(InferContext& c);
Result<Dims> convolution_weight_gradient(InferContext& c);
Result<Dims> pool(InferContext& c);  // attributes kernel strides padding padding_high dilations? layout
Result<Dims> adaptive_pool(InferContext& c);  // attributes output layout
Result<Dims> attention(InferContext& c);
Result<Dims> attention_gradient(InferContext& c);
Result<Dims> norm_last(InferContext& c);      // attribute axes_count; parameters have these axes' shape
Result<Dims> instance_norm(InferContext& c);  // norm_channels with at least one spatial axis
Result<Dims> gelu(InferContext& c);           // operand 0's shape; checks attribute approximate
Result<Dims> norm_channels(InferContext& c);  // parameters [C]; channels: attribute axis, else layout, else 1
}  // namespace shapes

namespace types {
Result<DType> declared(InferContext& c);      // input: the dtype is in the node
Result<DType> moved(InferContext& c);         // operands and result have one dtype
Result<DType> any(InferContext& c);           // the same, a dtype of arithmetic (see is_storage)
Result<DType> number(InferContext& c);        // the same, not bool
Result<DType> floating(InferContext& c);      // the same, a float
Result<DType> integer(InferContext& c);       // the same, an integer and not bool
Result<DType> bits(InferContext& c);          // the same, an integer or bool
Result<DType> to_bool(InferContext& c);       // operands of one dtype, result bool
Result<DType> to_i64(InferContext& c);        // operands of one dtype, result i64
Result<DType> i64(InferContext& c);           // operands and result i64
Result<DType> i64_to_f32(InferContext& c);    // operands i64, result f32
Result<DType> i64_to_i32(InferContext& c);    // operands i64, result i32
Result<DType> int_products(InferContext& c);  // operand 0 i8 or u8, operand 1 i8, result i32
Result<DType> grouped(InferContext& c);  // operand 1 i64 or i32, the others and the result one numeric dtype
Result<DType> where(InferContext& c);    // operand 0 bool, the others and the result one dtype
Result<DType> from_dtype(InferContext& c);           // attribute dtype
Result<DType> from_dtype_not_bool(InferContext& c);  // attribute dtype, not bool
Result<DType> same_width(InferContext& c);           // attribute dtype, as wide as the operand's
Result<DType> indexed(InferContext& c);  // operand 1 i64 or i32, the others and the result one dtype
Result<DType> float_params(
    InferContext& c);  // operand 0 a float; others its dtype, or f32 if it is 16 bits wide
Result<DType> attention(InferContext& c);  // likewise, except that the operand `kept` of attention is bool
}  // namespace types
}  // namespace tenon
