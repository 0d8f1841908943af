// See gradients.h. The gradients of reductions and of softmax.
#include <cmath>
#include <limits>

#include "src/ops/gradients/help.h"

namespace tenon::gradients {
namespace {

Dims axes_of(const Terms& t) { return attr_as<Dims>(t.c.node, "axes"); }
Dims axis_of(const Terms& t) { return {attr_as<Dim>(t.c.node, "axis")}; }
Expr summed(Expr v, const Dims& axes) { return fold(ops::sum, v, axes); }

// Equal elements share the gradient.
Status shared_by_extremes(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr chosen = cast(equal(t.x(), with_axes(t, t.y())), t.x().dtype());
    return chosen * (with_axes(t, t.dy()) / summed(chosen, axes_of(t)));
  });
}

// The product of the elements before each one, along the last axis.
Expr product_before(Expr x) {
  const int rank = x.rank();
  Dims low(rank, Dim(0)), high = low;
  low.back() = Dim(1);
  high.back() = Dim(-1);
  const Expr shifted = call(ops::pad, x, {{"low", low}, {"high", high}, {"value", Scalar::of(int64_t{1})}});
  return call(ops::cumprod, shifted, {{"axis", Dim(rank - 1)}});
}

Expr flip_last(Expr x) { return call(ops::flip, x, {{"axes", Dims{Dim(-1)}}}); }

}  // namespace

Status sum(GradientContext& c) {
  return only(c, [](const Terms& t) { return expand(with_axes(t, t.dy()), t.shape()); });
}

// dy times the product of the other elements, which is right for zeros too. The folded axes become one last
// axis, because a scan runs along one axis.
Status prod(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const std::vector<bool> folded = folded_axes(t);
    const Dims shape = t.shape();
    Dims perm, inverse(shape.size()), kept, moved;
    Dim count(1);
    for (const bool last : {false, true})
      for (size_t i = 0; i < shape.size(); ++i) {
        if (folded[i] != last) continue;
        inverse[i] = Dim(static_cast<int64_t>(perm.size()));
        perm.push_back(Dim(static_cast<int64_t>(i)));
        moved.push_back(shape[i]);
        if (last)
          count = t.c.b.dims().mul(count, shape[i]);
        else
          kept.push_back(shape[i]);
      }
    kept.push_back(count);
    const Expr x = reshape(transpose(t.x(), perm), kept);
    const Expr others = product_before(x) * flip_last(product_before(flip_last(x)));
    return transpose(reshape(others, moved), inverse) * with_axes(t, t.dy());
  });
}

Status max(GradientContext& c) { return shared_by_extremes(c); }
Status min(GradientContext& c) { return shared_by_extremes(c); }

Status mean(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr dy = with_axes(t, t.dy());
    const Dim size = bodies::folded(*dy.b, t.given(0).v, axes_of(t));
    return expand(dy / Expr{dy.b, bodies::count(*dy.b, dy.v, size)}, t.shape());
  });
}

// 2 (x - mean) / max(count - correction, 0)
Status var(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr x = t.x();
    const Dims axes = axes_of(t);
    const Expr size{x.b, bodies::count(*x.b, x.v, bodies::folded(*x.b, x.v, axes))};
    const Expr freedom = call(ops::maximum, size - attr_as<double>(t.c.node, "correction"), number(x, 0));
    const Expr centred = x - Expr{x.b, bodies::average(*x.b, x.v, axes)};
    return with_axes(t, t.dy()) * (2.0 / freedom) * centred;
  });
}

Status softmax(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr weighted = t.dy() * t.y();
    return weighted - t.y() * summed(weighted, axis_of(t));
  });
}

Status log_softmax(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() - call(ops::exp, t.y()) * summed(t.dy(), axis_of(t)); });
}

// exp(x - y); a row of -inf has gradient 0.
Status logsumexp(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr y = with_axes(t, t.y());
    const Expr shift = pick(equal(y, -std::numeric_limits<double>::infinity()), 0, y);
    return with_axes(t, t.dy()) * call(ops::exp, t.x() - shift);
  });
}

}  // namespace tenon::gradients
