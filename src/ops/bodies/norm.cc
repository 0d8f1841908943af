// See bodies.h. Statistics take two passes: the mean, then the mean of the squared distances from it.
#include "src/ops/bodies/body_help.h"
#include "src/ops/rules/rules.h"

namespace tenon::bodies {
namespace {

ValueId inverse_root(Builder& b, ValueId v, const Node& node) {
  return b(ops::rsqrt, {b(ops::add, {v, like(b, v, attr_as<double>(node, "eps"))})});
}

// (x - mean) * rsqrt(var + eps); mean(v) is the mean over some axes.
template <class Mean>
ValueId standardise(Builder& b, ValueId x, const Node& node, Mean mean) {
  const ValueId centred = b(ops::sub, {x, mean(x)});
  const ValueId variance = mean(b(ops::mul, {centred, centred}));
  return b(ops::mul, {centred, inverse_root(b, variance, node)});
}
ValueId standardise(Builder& b, ValueId x, const Dims& axes, const Node& node) {
  return standardise(b, x, node, [&](ValueId v) { return average(b, v, axes); });
}

Dims last_axes(int rank, int64_t axes) {
  Dims out;
  for (int64_t i = rank - axes; i < rank; ++i) out.push_back(Dim(i));
  return out;
}

// Multiplies by operand `first` and adds operand `first` + 1, if present; `place` reshapes each.
template <class Place>
ValueId scale_and_shift(Builder& b, const Node& node, size_t first, ValueId v, Place place) {
  const DType dtype = dtype_of(b, v);
  if (has(node, first)) v = b(ops::mul, {v, place(b.cast(node.inputs[first], dtype))});
  if (has(node, first + 1)) v = b(ops::add, {v, place(b.cast(node.inputs[first + 1], dtype))});
  return v;
}

}  // namespace

ValueId layer_norm(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const Dims axes = last_axes(b.type(x).rank(), attr_int(node, "axes_count"));
  const ValueId y = standardise(b, x, axes, node);
  return narrow(b, node, scale_and_shift(b, node, 1, y, [](ValueId v) { return v; }));
}

ValueId rms_norm(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const Dims axes = last_axes(b.type(x).rank(), attr_int(node, "axes_count"));
  const ValueId y = b(ops::mul, {x, inverse_root(b, average(b, b(ops::mul, {x, x}), axes), node)});
  return narrow(b, node, scale_and_shift(b, node, 1, y, [](ValueId v) { return v; }));
}

ValueId group_norm(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const Dims shape = b.shape(x);
  const int rank = static_cast<int>(shape.size());
  const int channel = is_channels_last(node) ? rank - 1 : 1;
  const Dim groups = attr_as<Dim>(node, "groups");
  const auto each = b.dims().divide(shape[channel], groups);
  TENON_CHECK(each.has_value(), "channels fall into groups");
  // Splits the channel axis into [groups, channels of a group]; folds all axes except the batch and the
  // groups.
  Dims split = shape, axes;
  split[channel] = groups;
  split.insert(split.begin() + channel + 1, *each);
  for (int i = 1; i <= rank; ++i)
    if (i != channel) axes.push_back(Dim(i));
  const ValueId y = b.reshape(standardise(b, b.reshape(x, split), axes, node), shape);
  return narrow(b, node,
                scale_and_shift(b, node, 1, y, [&](ValueId v) { return along(b, v, rank, channel); }));
}

ValueId group_norm_by_channels(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const Dims shape = b.shape(x);
  const int rank = static_cast<int>(shape.size());
  const Dim channels = shape[rank - 1], groups = attr_as<Dim>(node, "groups");
  const auto each = b.dims().divide(channels, groups);
  TENON_CHECK(each.has_value() && is_channels_last(node), "channels are innermost and fall into groups");
  Dims pixels, of_channels(rank, Dim(1));
  for (int i = 1; i < rank - 1; ++i) pixels.push_back(Dim(i));
  of_channels[0] = shape[0], of_channels[rank - 1] = channels;
  const ValueId y = standardise(b, x, node, [&](ValueId v) {
    if (!pixels.empty()) v = average(b, v, pixels);
    const ValueId parts = b.reshape(v, {shape[0], groups, Dim(1), *each});
    const ValueId repeated = b(ops::expand, {parts}, {{"shape", Dims{shape[0], groups, *each, *each}}});
    return b.reshape(average(b, repeated, {Dim(3)}), of_channels);
  });
  return narrow(b, node,
                scale_and_shift(b, node, 1, y, [&](ValueId v) { return along(b, v, rank, rank - 1); }));
}

ValueId instance_norm(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const int rank = b.type(x).rank();
  const ValueId y = standardise(b, x, last_axes(rank, rank - 2), node);
  return narrow(b, node, scale_and_shift(b, node, 1, y, [&](ValueId v) { return along(b, v, rank, 1); }));
}

// x * scale + shift with scale = weight * rsqrt(var + eps) and shift = bias - mean * scale. Both have one
// element per channel, so a frozen graph folds them into the preceding convolution.
ValueId batch_norm(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const int rank = b.type(x).rank();
  const int channel = *normal_axis(attr_int(node, "axis"), rank);
  const DType dtype = dtype_of(b, x);
  auto operand = [&](size_t i) { return b.cast(node.inputs[i], dtype); };
  ValueId scale = inverse_root(b, operand(2), node);
  if (has(node, 3)) scale = b(ops::mul, {scale, operand(3)});
  const ValueId offset = b(ops::mul, {operand(1), scale});
  const ValueId shift = has(node, 4) ? b(ops::sub, {operand(4), offset}) : b(ops::neg, {offset});
  const ValueId scaled = b(ops::mul, {x, along(b, scale, rank, channel)});
  return narrow(b, node, b(ops::add, {scaled, along(b, shift, rank, channel)}));
}

}  // namespace tenon::bodies
