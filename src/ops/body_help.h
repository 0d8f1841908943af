// Words that several bodies use. "Wide" means in the dtype that the arithmetic runs in: f32 for 16-bit
// floats. Tested by tests/unit/ops/table_test.cc.
#pragma once

#include "src/ops/bodies.h"
#include "src/ops/names.h"

namespace tenon::bodies {

inline DType dtype_of(Builder& b, ValueId v) { return b.type(v).dtype; }
inline ValueId wide(Builder& b, ValueId v) { return b.cast(v, compute_type(dtype_of(b, v))); }
// The result of wide arithmetic, back in the dtype of the node's first operand.
inline ValueId narrow(Builder& b, const Node& node, ValueId v) {
  return b.cast(v, dtype_of(b, node.inputs[0]));
}
// A literal of v's dtype.
inline ValueId like(Builder& b, ValueId v, double value) { return b.scalar(value, dtype_of(b, v)); }
// A size as a literal of v's dtype.
inline ValueId count(Builder& b, ValueId v, Dim size) {
  return size.is_const() ? like(b, v, static_cast<double>(size.value())) : b.size(size, dtype_of(b, v));
}
inline bool has(const Node& node, size_t operand) { return node.inputs.size() > operand; }

// A folded row, the axes kept with size 1.
ValueId fold(Builder& b, OpId row, ValueId v, const Dims& axes);
// How many elements fall together when the axes are folded (no axes: all).
Dim folded(Builder& b, ValueId v, const Dims& axes);
// Sum over the axes divided by their count, the axes kept.
ValueId average(Builder& b, ValueId v, const Dims& axes);
// A vector laid along one axis of a tensor of that rank: [C] -> [1,C,1,1].
ValueId along(Builder& b, ValueId vector, int rank, int axis);
// The permutation that swaps channels_last [N,S...,C] for channels_first [N,C,S...] and its inverse.
Dims to_channels_first(int rank);
Dims to_channels_last(int rank);
// "channels_last" given as the attribute layout.
bool is_channels_last(const Node& node);
// A copy of the node with another attribute layout.
Node with_layout(const Node& node, const std::string& layout);
// A copy of the node on x in channels_first, as the bodies of convolution and pooling want it.
Node channels_first(Builder& b, const Node& node);

}  // namespace tenon::bodies
