// See gradients.h. The gradients of convolution: by x a transposed convolution of dy, by w a
// convolution_weight_gradient, which is linear in both of its operands as a convolution is.
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
        groups(attr_as<Dim>(node, "groups")),
        last(bodies::is_channels_last(node)) {
    if (node.op == ops::convolution) extra = attr_as<Dims>(node, "output_padding");
    if (extra.empty()) extra.assign(strides.size(), Dim(0));
  }
  Dims strides, low, high, dilations, extra;
  Dim groups;
  bool last;
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

// dx of a convolution of x, of this shape, with w. The transposed convolution makes all elements that the windows cover; with constant
// sizes output_padding makes the rest, else a pad crops or adds zeros.
Expr by_input(const Terms& t, const Dims& x, Expr weight, Expr dy) {
  Shape s(t.c.node);
  DimTable& dims = t.c.b.dims();
  const Dims w = weight.shape(), y = dy.shape();
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
  const Expr dx = convolve(t, dy, weight, s, /*transposed=*/true);
  return crops ? call(ops::pad, dx, {{"low", zero}, {"high", crop}}) : dx;
}

// The dy of a transposed convolution as the operand of a convolution: cuts off the elements that output_padding added
// beyond all windows. Symbolic padding becomes zeros of dy.
Expr without_extra(Expr dy, Shape& s) {
  Dims zero(dy.shape().size(), Dim(0)), crop = zero;
  bool crops = false;
  for (size_t i = 0; i < s.strides.size(); ++i) {
    const Dim high = dy.b->dims().sub(s.high[i], s.extra[i]);
    const bool stays = s.extra[i] == Dim(0) || (high.is_const() && high.value() >= 0);
    s.high[i] = stays ? high : Dim(0);
    if (!stays) {
      crop[(s.last ? 1 : 2) + i] = high;
      crops = true;
    }
  }
  return crops ? call(ops::pad, dy, {{"low", zero}, {"high", crop}}) : dy;
}

// dx of a transposed convolution is a convolution of dy.
Expr by_input_of_transposed(const Terms& t) {
  Shape s(t.c.node);
  const Expr dy = without_extra(Expr{&t.c.b, t.c.dy}, s);
  return convolve(t, dy, t.given(1), s, /*transposed=*/false);
}

// dw: the operand that the windows see is x, or dy if the convolution is transposed.
Expr by_weight(const Terms& t, bool transposed) {
  Shape s(t.c.node);
  Expr x = t.given(0), dy{&t.c.b, t.c.dy};
  if (transposed) {
    dy = without_extra(dy, s);
    std::swap(x, dy);
  }
  const Node& node = t.c.node;
  const Dims w = t.shape(1);
  const Expr dw{x.b, (*x.b)(ops::convolution_weight_gradient, {x.v, dy.v},
                            {{"kernel", Dims(w.begin() + 2, w.end())},
                             {"strides", s.strides},
                             {"padding", s.low},
                             {"padding_high", s.high},
                             {"dilations", s.dilations},
                             {"groups", s.groups},
                             {"layout", attr_as<std::string>(node, "layout")},
                             {"tf32", attr_as<bool>(node, "tf32")}})};
  return reshape(dw, w);
}

}  // namespace

Status convolution(GradientContext& c) {
  const bool transposed = attr_as<bool>(c.node, "transposed");
  give(c, 0, [&](const Terms& t) {
    if (transposed) return by_input_of_transposed(t);
    return by_input(t, t.shape(0), t.given(1), Expr{&c.b, c.dy});
  });
  give(c, 1, [&](const Terms& t) { return by_weight(t, transposed); });
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

// The sum of w * convolution_weight_gradient(x, dy) is that of convolution(x, w) * dy.
Status convolution_weight_gradient(GradientContext& c) {
  const Expr w{&c.b, c.dy};
  give(c, 0, [&](const Terms& t) { return by_input(t, t.shape(0), w, t.given(1)); });
  give(c, 1, [&](const Terms& t) { return convolve(t, t.given(0), w, Shape(c.node), /*transposed=*/false); });
  return {};
}

}  // namespace tenon::gradients
