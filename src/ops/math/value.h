// Val: a scalar of the MathBuilder as an expression, so that src/ops/math reads as formulas. A number next to a
// Val takes the Val's dtype. A comparison gives a bool Val for where(). Tested by
// tests/unit/ops/math_test.cc.
#pragma once

#include <initializer_list>
#include <limits>
#include <span>

#include "src/ops/math/math.h"
#include "src/ops/math/nonfinite.h"
#include "src/ops/rows/names.h"

namespace tenon::math {

struct Val {
  MathBuilder* b;
  uint32_t id;

  Val(MathBuilder& builder, uint32_t value) : b(&builder), id(value) {}
  DType type() const { return b->type_of(id); }
  bool wide() const { return size_of(type()) == 8; }
  // A constant of this value's dtype.
  Val of(double value) const { return {*b, b->constant(type(), value)}; }
  Val of_int(int64_t value) const { return {*b, b->constant_int(type(), value)}; }
};

inline Val make(OpId op, Val a) { return {*a.b, a.b->op(op, {a.id})}; }
inline Val make(OpId op, Val a, Val c) { return {*a.b, a.b->op(op, {a.id, c.id})}; }
inline Val make(OpId op, Val a, Val c, Val d) { return {*a.b, a.b->op(op, {a.id, c.id, d.id})}; }

#define TENON_VAL_OPERATOR(symbol, row)                                              \
  inline Val operator symbol(Val a, Val c) { return make(ops::row, a, c); }          \
  inline Val operator symbol(Val a, double c) { return make(ops::row, a, a.of(c)); } \
  inline Val operator symbol(double a, Val c) { return make(ops::row, c.of(a), c); }
TENON_VAL_OPERATOR(+, add)
TENON_VAL_OPERATOR(-, sub)
TENON_VAL_OPERATOR(*, mul)
TENON_VAL_OPERATOR(/, div)
TENON_VAL_OPERATOR(<, lt)
TENON_VAL_OPERATOR(>, gt)
TENON_VAL_OPERATOR(<=, le)
TENON_VAL_OPERATOR(>=, ge)
TENON_VAL_OPERATOR(==, eq)
TENON_VAL_OPERATOR(!=, ne)
#undef TENON_VAL_OPERATOR
// For integers and bools.
inline Val operator&(Val a, Val c) { return make(ops::bit_and, a, c); }
inline Val operator|(Val a, Val c) { return make(ops::bit_or, a, c); }
inline Val operator^(Val a, Val c) { return make(ops::bit_xor, a, c); }
inline Val operator<<(Val a, int amount) { return make(ops::shift_left, a, a.of_int(amount)); }
inline Val operator>>(Val a, int amount) { return make(ops::shift_right, a, a.of_int(amount)); }

inline Val operator-(Val a) { return make(ops::neg, a); }
inline Val abs(Val a) { return make(ops::abs, a); }
inline Val sqrt(Val a) { return make(ops::sqrt, a); }
inline Val floor(Val a) { return make(ops::floor, a); }
inline Val round(Val a) { return make(ops::round, a); }
inline Val fma(Val a, Val c, Val d) { return make(ops::fma, a, c, d); }
inline Val fma(Val a, double c, Val d) { return make(ops::fma, a, a.of(c), d); }
inline Val fma(Val a, Val c, double d) { return make(ops::fma, a, c, a.of(d)); }
inline Val fma(Val a, double c, double d) { return make(ops::fma, a, a.of(c), a.of(d)); }
inline Val where(Val cond, Val a, Val c) { return make(ops::where, cond, a, c); }
inline Val where(Val cond, Val a, double c) { return make(ops::where, cond, a, a.of(c)); }
inline Val where(Val cond, double a, Val c) { return make(ops::where, cond, c.of(a), c); }
// One machine instruction each; a NaN x stays NaN.
inline Val at_most(Val x, double bound) { return where(x > bound, bound, x); }
inline Val at_least(Val x, double bound) { return where(x < bound, bound, x); }

inline Val cast(Val a, DType to) { return {*a.b, a.b->cast(a.id, to)}; }
// The float's bits as an integer of its width, and back.
inline Val bits(Val a) { return {*a.b, a.b->bitcast(a.id, a.wide() ? DType::i64 : DType::i32)}; }
inline Val from_bits(Val a) { return {*a.b, a.b->bitcast(a.id, a.wide() ? DType::f64 : DType::f32)}; }

// c[0] + c[1] x + c[2] x^2 + ... by Horner's scheme. With two lists, `f32` or `f64` according to x's dtype.
inline Val polynomial(Val x, std::initializer_list<double> c) {
  auto k = c.end();
  Val sum = x.of(*--k);
  while (k != c.begin()) sum = fma(sum, x, *--k);
  return sum;
}
inline Val horner(Val x, std::span<const double> c) {
  Val sum = x.of(c.back());
  for (size_t k = c.size() - 1; k-- > 0;) sum = fma(sum, x, c[k]);
  return sum;
}
inline Val polynomial(Val x, std::initializer_list<double> f32, std::initializer_list<double> f64) {
  return polynomial(x, x.wide() ? f64 : f32);
}
// The same sum in steps of x^2 = `square`, with half as long a chain of dependent instructions.
inline Val polynomial_by_pairs(Val x, Val square, std::initializer_list<double> c) {
  const double* k = c.end();
  Val sum = x.of(*--k);
  if (c.size() % 2 == 0) sum = fma(x, sum, *--k);
  while (k != c.begin()) {
    k -= 2;
    sum = fma(sum, square, fma(x, k[1], k[0]));
  }
  return sum;
}
inline double pick(Val x, double f32, double f64) { return x.wide() ? f64 : f32; }

// The layout of a float: the number of mantissa bits, the bits of 1.0, the sign bit.
inline int mantissa(Val x) { return x.wide() ? 52 : 23; }
inline int64_t one_bits(Val x) { return x.wide() ? 0x3ff0000000000000 : 0x3f800000; }
inline int64_t sign_bit(Val x) {
  return x.wide() ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
}
inline double smallest_normal(Val x) { return pick(x, 0x1p-126, 0x1p-1022); }
// `magnitude` with its sign flipped if `of` is negative (including -0).
inline Val flip_sign(Val magnitude, Val of) {
  const Val of_bits = bits(of);
  return from_bits(bits(magnitude) ^ (of_bits & of_bits.of_int(sign_bit(of))));
}

// Adding this to a small float rounds the float to an integer (half to even), which is then in the low bits
// of the sum.
inline double magic(Val x) { return pick(x, 0x1.8p23, 0x1.8p52); }

// Functions that several families share.
// magic plus twice the exponent's bias: shifted left by mantissa(x), the sum is 2^n times the bits of 1.0.
inline double exponent_magic(Val x) { return magic(x) + pick(x, 254, 2046); }
// e^x = p * 2^n, not yet scaled: p in [0.7, 1.42], shifted = exponent_magic + n.
struct ScaledExp {
  Val p, shifted;
};
// For x + *x_low, where *x_low is a correction below x's ulp; x must be inside exp's range.
ScaledExp scaled_exp(Val x, const Val* x_low = nullptr);
// p * 2^n in two steps, so that denormal results are rounded once and large ones reach inf. scale_down: for n
// <= 0.
Val scale(ScaledExp e);
Val scale_down(ScaledExp e);
// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)], for x > 0 and finite; e as a float.
struct SplitExponent {
  Val e, f;
};
SplitExponent split_exponent(Val x);
Val exp(Val x);
Val expm1(Val x);
Val one_minus_exp(Val x);  // 1 - e^x of an f32, -80 < x <= 0, never -0
Val log1p(Val x);

}  // namespace tenon::math
