// See gradients.h. The gradients of scans.
#include "src/ops/gradients/help.h"
#include "src/ops/rules/rules.h"

namespace tenon::gradients {
namespace {

Dim axis_attr(const Terms& t) { return attr_as<Dim>(t.c.node, "axis"); }

Expr scan(const Terms& t, OpId row, Expr v) { return call(row, v, {{"axis", axis_attr(t)}}); }

// The sum of each element and all behind it.
Expr sum_behind(const Terms& t, Expr v) {
  const Dims axes = {axis_attr(t)};
  const Expr turned = call(ops::flip, v, {{"axes", axes}});
  return call(ops::flip, scan(t, ops::cumsum, turned), {{"axes", axes}});
}

// Each result is the last element so far that equals it.
Status last_extreme(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const int rank = t.rank();
    if (rank == 0) return t.dy();
    const Dims shape = t.shape();
    const int axis = *normal_axis(axis_attr(t).value(), rank);
    Dims along(rank, Dim(1));
    along[axis] = shape[axis];
    const Expr index = count_up(&t.c.b, along, axis, DType::i64);
    const Expr is_new = either(equal(t.x(), t.y()), call(ops::isnan, t.x()));
    const Expr source = scan(t, ops::cummax, pick(is_new, index, number(index, 0)));
    const Expr empty = zeros(t.dy(), shape);
    return Expr{&t.c.b, t.c.b(ops::scatter, {empty.v, source.v, t.dy().v},
                              {{"axis", Dim(axis)}, {"mode", std::string("add")}, {"wrap", false}})};
  });
}

}  // namespace

Status cumsum(GradientContext& c) {
  return only(c, [](const Terms& t) { return sum_behind(t, t.dy()); });
}

// Before the first zero x_i the derivative is the sum of dy * y behind, divided by x_i. At the first zero it is
// the sum of dy * y with 1 in place of that zero. Behind it everything is 0.
Status cumprod(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr x = t.x(), is_zero = equal(x, 0);
    const Expr zeros_so_far = scan(t, ops::cumsum, cast(is_zero, DType::i64));
    const Expr before = equal(zeros_so_far, 0), first = both(is_zero, equal(zeros_so_far, 1));
    const Expr replaced = scan(t, ops::cumprod, pick(first, 1, x));
    const Expr at_first = pick(first, sum_behind(t, t.dy() * replaced), 0);
    return pick(before, sum_behind(t, t.dy() * t.y()) / pick(is_zero, 1, x), at_first);
  });
}

Status cummax(GradientContext& c) { return last_extreme(c); }
Status cummin(GradientContext& c) { return last_extreme(c); }

}  // namespace tenon::gradients
