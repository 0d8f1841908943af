// Helper functions of several gradient rules. An Expr is a value with operators, so that a rule reads as its
// formula. "Wide" means the dtype in which the arithmetic runs: f32 for 16-bit floats. Tested by
// tests/unit/passes/gradient_test.cc.
#pragma once

#include "src/ops/bodies/body_help.h"
#include "src/ops/gradients/gradients.h"

namespace tenon::gradients {

struct Expr {
  Builder* b;
  ValueId v;
  DType dtype() const { return b->type(v).dtype; }
  Dims shape() const { return b->shape(v); }
  int rank() const { return b->type(v).rank(); }
};

inline Expr call(OpId row, Expr x) { return {x.b, (*x.b)(row, {x.v})}; }
inline Expr call(OpId row, Expr x, Expr y) { return {x.b, (*x.b)(row, {x.v, y.v})}; }
inline Expr call(OpId row, Expr x, std::vector<NamedAttr> attrs) {
  return {x.b, (*x.b)(row, {x.v}, std::move(attrs))};
}
// A literal of x's dtype.
inline Expr number(Expr x, double value) { return {x.b, x.b->scalar(value, x.dtype())}; }
inline Expr operator+(Expr x, Expr y) { return call(ops::add, x, y); }
inline Expr operator-(Expr x, Expr y) { return call(ops::sub, x, y); }
inline Expr operator*(Expr x, Expr y) { return call(ops::mul, x, y); }
inline Expr operator/(Expr x, Expr y) { return call(ops::div, x, y); }
inline Expr operator-(Expr x) { return call(ops::neg, x); }
inline Expr operator+(Expr x, double y) { return x + number(x, y); }
inline Expr operator-(Expr x, double y) { return x - number(x, y); }
inline Expr operator*(Expr x, double y) { return x * number(x, y); }
inline Expr operator/(Expr x, double y) { return x / number(x, y); }
inline Expr operator+(double x, Expr y) { return number(y, x) + y; }
inline Expr operator-(double x, Expr y) { return number(y, x) - y; }
inline Expr operator*(double x, Expr y) { return number(y, x) * y; }
inline Expr operator/(double x, Expr y) { return number(y, x) / y; }
// Comparisons, in bool.
inline Expr equal(Expr x, Expr y) { return call(ops::eq, x, y); }
inline Expr equal(Expr x, double y) { return call(ops::eq, x, number(x, y)); }
inline Expr less(Expr x, Expr y) { return call(ops::lt, x, y); }
inline Expr less(Expr x, double y) { return call(ops::lt, x, number(x, y)); }
inline Expr at_most(Expr x, double y) { return call(ops::le, x, number(x, y)); }
inline Expr both(Expr x, Expr y) { return call(ops::logical_and, x, y); }
inline Expr either(Expr x, Expr y) { return call(ops::logical_or, x, y); }
// yes where the condition holds, else no.
inline Expr pick(Expr condition, Expr yes, Expr no) {
  return {yes.b, (*yes.b)(ops::where, {condition.v, yes.v, no.v})};
}
inline Expr pick(Expr condition, Expr yes, double no) { return pick(condition, yes, number(yes, no)); }
inline Expr pick(Expr condition, double yes, Expr no) { return pick(condition, number(no, yes), no); }

inline Expr wide(Expr x) { return {x.b, bodies::wide(*x.b, x.v)}; }
inline Expr cast(Expr x, DType to) { return {x.b, x.b->cast(x.v, to)}; }
inline Expr reshape(Expr x, Dims shape) { return {x.b, x.b->reshape(x.v, std::move(shape))}; }
inline Expr transpose(Expr x, Dims perm) { return call(ops::transpose, x, {{"perm", std::move(perm)}}); }
// Folds the axes; they stay with size 1.
inline Expr fold(OpId row, Expr x, const Dims& axes) { return {x.b, bodies::fold(*x.b, row, x.v, axes)}; }
// Zeros of x's dtype.
Expr zeros(Expr x, Dims shape);
// The index along the axis.
Expr count_up(Builder* b, const Dims& shape, int64_t axis, DType dtype);

// The values of a rule in wide arithmetic.
struct Terms {
  GradientContext& c;
  Expr dy() const { return wide(Expr{&c.b, c.dy}); }
  Expr y() const { return wide(Expr{&c.b, c.y}); }
  Expr x(size_t i = 0) const { return wide(given(i)); }
  Expr given(size_t i) const { return {&c.b, c.node.inputs[i]}; }  // the operand itself
  Dims shape(size_t i = 0) const { return c.b.shape(c.node.inputs[i]); }
  int rank(size_t i = 0) const { return c.b.type(c.node.inputs[i]).rank(); }
  bool wants(size_t i) const { return i < c.wanted.size() && c.wanted[i]; }
};

// v summed to the shape that broadcast to v's shape. A size that differs from v's and is not known to be 1
// equals v's: the node could not have been added otherwise.
Expr sum_to(Expr v, const Dims& shape);
// Sets the gradient of operand i: the value summed to the operand's shape, in the operand's dtype.
void set(GradientContext& c, size_t i, Expr value);
// set(c, i, make(terms)) if the gradient of operand i is wanted.
template <class F>
void give(GradientContext& c, size_t i, F make) {
  const Terms t{c};
  if (t.wants(i)) set(c, i, make(t));
}
// The rule of a row whose operand 0 alone has a gradient.
template <class F>
Status only(GradientContext& c, F make) {
  give(c, 0, make);
  return {};
}

// One flag per axis of operand 0: whether the node folds it (attribute axes).
std::vector<bool> folded_axes(const Terms& t);
// The result of a fold in which the folded axes have size 1.
Expr with_axes(const Terms& t, Expr folded);
// Repeats v to the shape, as broadcasting does.
Expr expand(Expr v, const Dims& shape);

// The elements of v at start, start + step, ... of `size` elements along the axis; zeros elsewhere.
Expr place(Expr v, int axis, Dim start, Dim step, Dim size);
// The gradient of windows: v has the node's shape, the result has shape x.
Expr unwindow(Expr v, const Dims& x, const Node& windows);
// Swaps the last two axes.
Expr swap_last(Expr v);
// The permutation of `rank` axes that moves axis `from` to position `to`.
Dims moving(int rank, int from, int to);
// [first, first + 1, ... end - 1]
Dims range(int first, int end);

}  // namespace tenon::gradients
