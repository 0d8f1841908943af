// See gradients.h. The gradients of convolution: by x a transposed convolution of dy, by w a matrix product with
// the windows of x.
#include "src/ops/gradients/help.h"

namespace tenon::gradients {
namespace {

// The attributes of a convolution; the lists have one entry per spatial axis.
struct Shape {
  explicit Shape(const Node& node)
      : strides(attr_as<Dims>(node, "strides")),
        low(attr_as<Dims>(node, "padding")),
        high(attr_as<Dims>(node, "padding_high")),
        dilations(attr_as<Dims>(node, "dilations")),
        extra(attr_as<Dims>(node, "output_padding")),
        groups(attr_as<Dim>(node, "groups")),
        transposed(attr_as<bool>(node, "transposed")),
        last(bodies::is_channels_last(node)) {
    if (extra.empty()) extra.assign(strides.size(), Dim(0));
  }
  Dims strides, low, high, dilations, extra;
  Dim groups;
  bool transposed, last;
};

Expr convolve(const Terms& t, Expr x, Expr w, const Shape& s, bool transposed) {
  const Node& node = t.c.node;
  return {x.b, (*x.b)(ops::convolution, {x.v, w.v},
                      {{"strides", s.strides},
                       {"padding", s.low},
                       {"padding_high", s.high},
                       {"dilations", s.dilations},
                       {"groups", s.groups},
                       {"transposed", transposed},
                       {"output_padding", transposed ? s.extra : Dims{}},
                       {"layout", attr_as<std::string>(node, "layout")},
                       {"tf32", attr_as<bool>(node, "tf32")}})};
}

// dx of a convolution. The transposed convolution makes all elements that the windows cover; with constant
// sizes output_padding makes the rest, else a pad crops or adds zeros.
Expr by_input(const Terms& t) {
  Shape s(t.c.node);
  DimTable& dims = t.c.b.dims();
  const Dims x = t.shape(0), w = t.shape(1), y = t.c.b.shape(t.c.y);
  const size_t first = s.last ? 1 : 2;
  Dims zero(x.size(), Dim(0)), crop = zero;
  bool crops = false;
  for (size_t i = 0; i < s.strides.size(); ++i) {
    const Dim reach = dims.mul(s.dilations[i], dims.sub(w[2 + i], 1));
    const Dim covered = dims.add(dims.add(dims.mul(dims.sub(y[first + i], 1), s.strides[i]), reach), 1);
    const Dim whole = dims.sub(dims.add(x[first + i], s.low[i]), covered);  // behind what is covered
    const Dim rest = dims.add(whole, s.high[i]);
    if (rest.is_const() && rest < std::max(s.strides[i], s.dilations[i])) {
      s.extra[i] = rest;
    } else {
      s.high[i] = Dim(0);
      crop[first + i] = whole;
      crops = true;
    }
  }
  const Expr dx = convolve(t, Expr{&t.c.b, t.c.dy}, t.given(1), s, /*transposed=*/true);
  return crops ? call(ops::pad, dx, {{"low", zero}, {"high", crop}}) : dx;
}

// dx of a transposed convolution is a convolution of dy, without the elements of dy that output_padding added
// beyond all windows.
Expr by_input_of_transposed(const Terms& t) {
  Shape s(t.c.node);
  Expr dy{&t.c.b, t.c.dy};
  Dims zero(dy.shape().size(), Dim(0)), crop = zero;
  bool crops = false;
  for (size_t i = 0; i < s.strides.size(); ++i) {
    const Dim high = t.c.b.dims().sub(s.high[i], s.extra[i]);
    s.high[i] = std::max(high, Dim(0));
    if (high < Dim(0)) {
      crop[(s.last ? 1 : 2) + i] = high;
      crops = true;
    }
  }
  if (crops) dy = call(ops::pad, dy, {{"low", zero}, {"high", crop}});
  return convolve(t, dy, t.given(1), s, /*transposed=*/false);
}

// The sum over samples and positions of wide[n, a, p * stride + k * dilation] * narrow[n, b, p], per group, as
// [groups, B, A * kernel]: one matrix product, whose factors are [groups, B, N * P] and [groups, N * P, A * K].
// `large` is padded, [N, g * A, S...]; `small` is [N, g * B, P...].
Expr correlate(const Terms& t, Expr large, Expr small, const Shape& s, const Dims& kernel) {
  DimTable& dims = t.c.b.dims();
  const int spatial = static_cast<int>(kernel.size());
  const Expr seen = call(ops::windows, large,
                         {{"axes", range(2, 2 + spatial)},
                          {"sizes", kernel},
                          {"strides", s.strides},
                          {"dilations", s.dilations}});
  const Dims narrow = small.shape(), shape = seen.shape();
  const Dim a = *dims.divide(shape[1], s.groups), b = *dims.divide(narrow[1], s.groups);
  const Dim positions = dims.mul(narrow[0], dims.product(std::span(narrow).subspan(2)));
  // [N, g, A, P..., K...] -> [g, N, P..., A, K...]
  Dims apart = {shape[0], s.groups, a};
  apart.insert(apart.end(), shape.begin() + 2, shape.end());
  Dims perm = {Dim(1), Dim(0)};
  for (int i = 0; i < spatial; ++i) perm.push_back(Dim(3 + i));
  perm.push_back(Dim(2));
  for (int i = 0; i < spatial; ++i) perm.push_back(Dim(3 + spatial + i));
  const Expr columns = reshape(transpose(reshape(seen, apart), perm),
                               {s.groups, positions, dims.mul(a, dims.product(kernel))});
  // [N, g, B, P...] -> [g, B, N, P...]
  Dims small_apart = {narrow[0], s.groups, b}, small_perm = {Dim(1), Dim(2), Dim(0)};
  small_apart.insert(small_apart.end(), narrow.begin() + 2, narrow.end());
  for (int i = 0; i < spatial; ++i) small_perm.push_back(Dim(3 + i));
  const Expr rows = reshape(transpose(reshape(small, small_apart), small_perm), {s.groups, b, positions});
  return {rows.b, (*rows.b)(ops::matmul, {rows.v, columns.v}, {{"tf32", attr_as<bool>(t.c.node, "tf32")}})};
}

// dw: the large side is x, or dy if the convolution is transposed, and the small side the other one.
Expr by_weight(const Terms& t) {
  const Shape s(t.c.node);
  DimTable& dims = t.c.b.dims();
  auto first = [&](Expr v) { return s.last ? transpose(v, bodies::to_channels_first(v.rank())) : v; };
  Expr large = first(t.given(0)), small = first(Expr{&t.c.b, t.c.dy});
  if (s.transposed) std::swap(large, small);
  const Dims w = t.shape(1), kernel(w.begin() + 2, w.end());
  Dims low(2, Dim(0)), high = low;
  const Dims have = large.shape(), positions = small.shape();
  for (size_t i = 0; i < kernel.size(); ++i) {
    // As many elements as the windows cover.
    const Dim reach = dims.mul(s.dilations[i], dims.sub(kernel[i], 1));
    const Dim covered = dims.add(dims.add(dims.mul(dims.sub(positions[2 + i], 1), s.strides[i]), reach), 1);
    low.push_back(s.low[i]);
    high.push_back(dims.sub(covered, dims.add(have[2 + i], s.low[i])));
  }
  large = call(ops::pad, large, {{"low", low}, {"high", high}});
  return reshape(correlate(t, large, small, s, kernel), w);
}

}  // namespace

Status convolution(GradientContext& c) {
  give(c, 0, [](const Terms& t) {
    return attr_as<bool>(t.c.node, "transposed") ? by_input_of_transposed(t) : by_input(t);
  });
  give(c, 1, [](const Terms& t) { return by_weight(t); });
  give(c, 2, [](const Terms& t) {
    const Expr dy = t.dy();
    const int channel = bodies::is_channels_last(t.c.node) ? dy.rank() - 1 : 1;
    Dims axes;
    for (int i = 0; i < dy.rank(); ++i)
      if (i != channel) axes.push_back(Dim(i));
    return call(ops::sum, dy, {{"axes", axes}});
  });
  return {};
}

}  // namespace tenon::gradients
