// See bodies.h. The bodies of matmul and convolution are their definitions: all products, then their sum.
// They are the reference in tests, and the implementation for dtypes that no library takes.
#include "src/ops/bodies/body_help.h"

namespace tenon::bodies {
namespace {

Dims spatial_axes(int rank) {
  Dims axes;
  for (int i = 2; i < rank; ++i) axes.push_back(Dim(i));
  return axes;
}

// Puts stride - 1 zeros after every element of the spatial axes, including the last one, then pads.
ValueId dilate_and_pad(Builder& b, ValueId x, const Dims& strides, const Dims& low, const Dims& high) {
  const Dims shape = b.shape(x);
  const size_t rank = shape.size();
  Dims apart = {shape[0], shape[1]}, merged = apart, zeros_low = {Dim(0), Dim(0)}, zeros_high = zeros_low;
  Dims pad_low = zeros_low, pad_high = zeros_low;
  for (size_t i = 2; i < rank; ++i) {
    const Dim stride = strides[i - 2];
    apart.insert(apart.end(), {shape[i], Dim(1)});
    zeros_low.insert(zeros_low.end(), {Dim(0), Dim(0)});
    zeros_high.insert(zeros_high.end(), {Dim(0), b.dims().sub(stride, 1)});
    merged.push_back(b.dims().mul(shape[i], stride));
    pad_low.push_back(low[i - 2]);
    pad_high.push_back(b.dims().sub(high[i - 2], b.dims().sub(stride, 1)));
  }
  const ValueId spread = b(ops::pad, {b.reshape(x, apart)}, {{"low", zeros_low}, {"high", zeros_high}});
  return b(ops::pad, {b.reshape(spread, merged)}, {{"low", pad_low}, {"high", pad_high}});
}

// How many of the ends are at most the number of the row, [rows] or [rows, 1].
ValueId group_of_rows(Builder& b, ValueId ends, Dim rows, bool keepdims) {
  const ValueId row = b(ops::iota, {}, {{"shape", Dims{rows, Dim(1)}}, {"dtype", dtype_of(b, ends)}});
  const ValueId behind = b.cast(b(ops::le, {ends, row}), DType::i64);
  return b(ops::sum, {behind}, {{"axes", Dims{Dim(1)}}, {"keepdims", keepdims}});
}

}  // namespace

// The sum over k of a[..., m, k] * b[..., k, n], written as a [..., M, 1, K] times b^T [..., 1, N, K].
ValueId matmul(Builder& b, const Node& node) {
  ValueId x = wide(b, node.inputs[0]), y = wide(b, node.inputs[1]);
  const bool row = b.type(x).rank() == 1, column = b.type(y).rank() == 1;
  if (!column) y = transpose_last(b, y);
  Dims left = b.shape(x), right = b.shape(y);
  if (!row && !column) {
    left.insert(left.end() - 1, Dim(1));
    right.insert(right.end() - 2, Dim(1));
  }
  // A vector has only the axis K, so it multiplies the other operand's rows without a reshape.
  const ValueId products = b(ops::mul, {b.reshape(x, left), b.reshape(y, right)});
  return narrow_products(b, node, b(ops::sum, {products}, {{"axes", Dims{Dim(-1)}}}));
}

ValueId int_matmul(Builder& b, const Node& node) {
  return b(ops::matmul, {b.cast(node.inputs[0], DType::i32), b.cast(node.inputs[1], DType::i32)});
}

ValueId grouped_matmul(Builder& b, const Node& node) {
  const ValueId a = node.inputs[0], ends = node.inputs[1], matrices = node.inputs[2];
  const Dims rows = b.shape(a), shape = b.shape(matrices);
  const ValueId group = group_of_rows(b, ends, rows[0], false);
  const ValueId last = b.size(b.dims().sub(shape[0], Dim(1)), DType::i64);
  const ValueId own =
      b(ops::gather, {matrices, b(ops::minimum, {group, last})}, {{"axis", Dim(0)}, {"wrap", false}});
  const ValueId product = b(ops::matmul, {b.reshape(a, {rows[0], Dim(1), rows[1]}), own});
  const ValueId inside = b.reshape(b(ops::le, {group, last}), {rows[0], Dim(1)});
  return b(ops::where, {inside, b.reshape(product, {rows[0], shape[2]}), like(b, product, 0)});
}

// For each group, a product of all rows, with zeros in place of the rows of other groups. 16-bit floats become f32, for which the
// library has products on every CPU.
ValueId grouped_outer(Builder& b, const Node& node) {
  const ValueId ends = node.inputs[1];
  if (const ValueId a = wide(b, node.inputs[0]); a != node.inputs[0])
    return narrow(b, node, b(ops::grouped_outer, {a, ends, wide(b, node.inputs[2])}));
  const Dim rows = b.shape(node.inputs[0])[0], groups = b.shape(ends)[0];
  const ValueId number = b(ops::iota, {}, {{"shape", Dims{groups}}, {"dtype", DType::i64}});
  const ValueId own = transpose_last(b, b(ops::eq, {group_of_rows(b, ends, rows, true), number}));
  const ValueId inside = b.reshape(own, {groups, rows, Dim(1)});
  auto apart = [&](ValueId v) { return b(ops::where, {inside, v, like(b, v, 0)}); };
  return b(ops::matmul, {transpose_last(b, apart(node.inputs[0])), apart(node.inputs[2])});
}

ValueId linear(Builder& b, const Node& node) {
  const ValueId y = b(ops::matmul, {node.inputs[0], transpose_last(b, node.inputs[1])},
                      {{"tf32", attr_as<bool>(node, "tf32")}});
  return has(node, 2) ? b(ops::add, {y, node.inputs[2]}) : y;
}

// windows(pad(x)) [N, g, 1, C/g, positions..., kernel...] times w [1, g, O/g, C/g, 1..., kernel...], summed
// over C/g and the kernel. Transposed: the same with stride 1, on x with zeros between its elements, with the
// kernel flipped.
ValueId convolution(Builder& b, const Node& given) {
  if (is_channels_last(given)) {
    const ValueId y = convolution(b, channels_first(b, given));
    return transpose(b, y, to_channels_last(b.type(y).rank()));
  }
  const Node& node = given;
  const bool transposed = attr_as<bool>(node, "transposed");
  const Dim groups = attr_as<Dim>(node, "groups");
  ValueId x = wide(b, node.inputs[0]), w = wide(b, node.inputs[1]);
  const int rank = b.type(x).rank();
  const int spatial = rank - 2;
  const Dims ws = b.shape(w);
  const Dims kernel(ws.begin() + 2, ws.end());
  const auto split = b.dims().divide(ws[0], groups);
  TENON_CHECK(split.has_value(), "channels fall into groups");
  Dims strides = attr_as<Dims>(node, "strides"), low = attr_as<Dims>(node, "padding"),
       high = attr_as<Dims>(node, "padding_high");
  const Dims dilations = attr_as<Dims>(node, "dilations");
  const Dim in = transposed ? *split : ws[1], out = transposed ? ws[1] : *split;  // channels of one group

  if (transposed) {
    const Dims& extra = attr_as<Dims>(node, "output_padding");
    for (int i = 0; i < spatial; ++i) {
      const Dim reach = b.dims().mul(dilations[i], b.dims().sub(kernel[i], 1));
      low[i] = b.dims().sub(reach, low[i]);
      high[i] = b.dims().add(b.dims().sub(reach, high[i]), extra.empty() ? Dim(0) : extra[i]);
    }
    x = dilate_and_pad(b, x, strides, low, high);
    strides.assign(spatial, Dim(1));
    w = b(ops::flip, {w},
          {{"axes", spatial_axes(rank)}});  // [g * C/g, O/g, kernel...] -> [g, O/g, C/g, kernel...]
    Dims apart = {groups, in, out}, swap = {Dim(0), Dim(2), Dim(1)};
    apart.insert(apart.end(), kernel.begin(), kernel.end());
    for (int i = 0; i < spatial; ++i) swap.push_back(Dim(3 + i));
    w = transpose(b, b.reshape(w, apart), swap);
  } else {
    Dims pad_low = {Dim(0), Dim(0)}, pad_high = pad_low;
    pad_low.insert(pad_low.end(), low.begin(), low.end());
    pad_high.insert(pad_high.end(), high.begin(), high.end());
    x = b(ops::pad, {x}, {{"low", pad_low}, {"high", pad_high}});
  }
  x = b(ops::windows, {x},
        {{"axes", spatial_axes(rank)}, {"sizes", kernel}, {"strides", strides}, {"dilations", dilations}});

  const Dims xs = b.shape(x);
  Dims x_shape = {xs[0], groups, Dim(1), in}, w_shape = {Dim(1), groups, out, in}, axes = {Dim(3)};
  x_shape.insert(x_shape.end(), xs.begin() + 2, xs.end());
  w_shape.insert(w_shape.end(), spatial, Dim(1));
  w_shape.insert(w_shape.end(), kernel.begin(), kernel.end());
  for (int i = 0; i < spatial; ++i) axes.push_back(Dim(4 + spatial + i));
  const ValueId products = b(ops::mul, {b.reshape(x, x_shape), b.reshape(w, w_shape)});
  const ValueId sums = b(ops::sum, {products}, {{"axes", axes}});
  Dims shape = {xs[0], b.dims().mul(groups, out)};
  shape.insert(shape.end(), xs.begin() + 2, xs.begin() + 2 + spatial);
  ValueId y = b.reshape(sums, shape);
  if (has(node, 2)) y = b(ops::add, {y, along(b, wide(b, node.inputs[2]), rank, 1)});
  return narrow_products(b, node, y);
}

// One matrix product per group, whose factors are dy [g, O/g, N * P] and the windows of x [g, N * P, C/g * kernel].
ValueId convolution_weight_gradient(Builder& b, const Node& node) {
  DimTable& dims = b.dims();
  const int rank = b.type(node.inputs[0]).rank(), spatial = rank - 2;
  auto first = [&](ValueId v) {
    return is_channels_last(node) ? transpose(b, v, to_channels_first(rank)) : v;
  };
  const Dims kernel = attr_as<Dims>(node, "kernel");
  const Dim groups = attr_as<Dim>(node, "groups");
  Dims low(2, Dim(0)), high = low;
  for (Dim d : attr_as<Dims>(node, "padding")) low.push_back(d);
  for (Dim d : attr_as<Dims>(node, "padding_high")) high.push_back(d);
  const ValueId padded = b(ops::pad, {first(node.inputs[0])}, {{"low", low}, {"high", high}});
  const ValueId seen = b(ops::windows, {padded},
                         {{"axes", spatial_axes(rank)},
                          {"sizes", kernel},
                          {"strides", attr_as<Dims>(node, "strides")},
                          {"dilations", attr_as<Dims>(node, "dilations")}});
  const ValueId dy = first(node.inputs[1]);
  const Dims shape = b.shape(seen), positions = b.shape(dy);
  const Dim in = *dims.divide(shape[1], groups), out = *dims.divide(positions[1], groups);
  const Dim count = dims.mul(positions[0], dims.product(std::span(positions).subspan(2)));
  // [N, g, C/g, P..., K...] -> [g, N, P..., C/g, K...]
  Dims apart = {shape[0], groups, in}, perm = {Dim(1), Dim(0)};
  apart.insert(apart.end(), shape.begin() + 2, shape.end());
  for (int i = 0; i < spatial; ++i) perm.push_back(Dim(3 + i));
  perm.push_back(Dim(2));
  for (int i = 0; i < spatial; ++i) perm.push_back(Dim(3 + spatial + i));
  const ValueId columns = b.reshape(transpose(b, b.reshape(seen, apart), perm),
                                    {groups, count, dims.mul(in, dims.product(kernel))});
  // [N, g, O/g, P...] -> [g, O/g, N, P...]
  apart = {positions[0], groups, out}, perm = {Dim(1), Dim(2), Dim(0)};
  apart.insert(apart.end(), positions.begin() + 2, positions.end());
  for (int i = 0; i < spatial; ++i) perm.push_back(Dim(3 + i));
  const ValueId rows = b.reshape(transpose(b, b.reshape(dy, apart), perm), {groups, out, count});
  Dims result = {positions[1], in};
  result.insert(result.end(), kernel.begin(), kernel.end());
  return b.reshape(b(ops::matmul, {rows, columns}, {{"tf32", attr_as<bool>(node, "tf32")}}), result);
}

}  // namespace tenon::bodies
