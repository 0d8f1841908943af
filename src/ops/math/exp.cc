// Exponential functions. x = n ln 2 + r with |r| <= ln 2 / 2 and an integer n; e^r is a polynomial, and 2^n
// is assembled from bits. Tested by tests/unit/ops/math_test.cc.
#include "src/ops/math/value.h"

namespace tenon::math {
namespace {

// ln 2 as the sum of two floats of the dtype.
constexpr double kLn2HighF32 = 0x1.62e43p-1, kLn2LowF32 = -0x1.05c61p-29;
constexpr double kLn2High = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
constexpr double kLog2E = 0x1.71547652b82fep+0;

struct Reduced {
  Val shifted, r;  // magic + n; x - n ln 2
};
Reduced reduce(Val x, double magic) {
  const Val shifted = fma(x, kLog2E, magic);
  const Val n = shifted - magic;
  Val r = fma(n, pick(x, -kLn2HighF32, -kLn2High), x);
  r = fma(n, pick(x, -kLn2LowF32, -kLn2Low), r);
  return {shifted, r};
}

// 2^(n + offset) from magic + n, for normal results.
Val power_of_two(Val shifted, int offset) {
  const int shift = mantissa(shifted);
  const Val n = bits(shifted) << shift;
  return from_bits(n + n.of_int(one_bits(shifted) + (int64_t{offset} << shift)));
}

// (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2; relative error of e^r - 1: f32 2^-26, f64 2^-61.
Val expm1_tail(Val r) {
  if (!r.wide())
    return polynomial_by_pairs(r, r * r,
                               {0x1.fffffep-2, 0x1.5554aap-3, 0x1.55579ep-5, 0x1.122c8cp-7, 0x1.6ab0f4p-10});
  return polynomial_by_pairs(
      r, r * r,
      {0x1p-1, 0x1.5555555555559p-3, 0x1.5555555555558p-5, 0x1.111111110f724p-7, 0x1.6c16c16c17503p-10,
       0x1.a01a01afa286fp-13, 0x1.a01a0199c59d7p-16, 0x1.71ddf8f2c74a4p-19, 0x1.27e50209ad869p-22,
       0x1.af5ddf221947dp-26, 0x1.1f2c4c2eb1b67p-29});
}

// sinh and cosh of n ln 2 + r from 2^n and polynomials in r: sinh(n ln 2) and cosh(n ln 2) are sums of two
// powers of two.
struct Hyperbolic {
  Val sinh_r, cosh_r, sinh_n, cosh_n;  // sinh_n and cosh_n are halved
};
Hyperbolic hyperbolic(Val x) {
  const auto [shifted, r] = reduce(x, magic(x));
  const Val s = r * r;
  // sinh: relative error f32 2^-26, f64 2^-65; cosh: f32 2^-33, f64 2^-70.
  const Val sinh_r = fma(r * s,
                         polynomial(s, {0x1.5554bp-3, 0x1.122794p-7},
                                    {0x1.5555555555555p-3, 0x1.1111111111388p-7, 0x1.a01a019e9f62fp-13,
                                     0x1.71de408872ee5p-19, 0x1.ae4cb5866b749p-26, 0x1.82e3ed05f47a9p-33}),
                         r);
  const Val cosh_r = fma(s,
                         polynomial(s, {0.5, 0x1.5554e6p-5, 0x1.6d4f3cp-10},
                                    {0x1p-1, 0x1.5555555555558p-5, 0x1.6c16c16c14ff1p-10,
                                     0x1.a01a01ad86bc7p-16, 0x1.27e4cbf6ee38ep-22, 0x1.1f8c1362c3e4fp-29}),
                         1.0);
  const Val up = power_of_two(shifted, -2), down = 0x1p-4 / up;
  return {sinh_r, cosh_r, up - down, up + down};
}

}  // namespace

ScaledExp scaled_exp(Val x, const Val* x_low) {
  auto [shifted, r] = reduce(x, exponent_magic(x));
  if (x_low) r = r + *x_low;
  // e^r, relative error f32 2^-28, f64 2^-57.
  const Val p =
      polynomial(r, {1, 1, 0x1.fffffcp-2, 0x1.55548cp-3, 0x1.555864p-5, 0x1.123db8p-7, 0x1.6ab66p-10},
                 {1, 1, 0x1.000000000000ap-1, 0x1.5555555555503p-3, 0x1.555555555060bp-5,
                  0x1.1111111124be7p-7, 0x1.6c16c184b2a92p-10, 0x1.a01a013df02a9p-13, 0x1.a019989bbbd7ap-16,
                  0x1.71def2e75804p-19, 0x1.28aec2da5dd3fp-22, 0x1.add84ae776405p-26});
  return {p, shifted};
}

namespace {

// p 2^n = p (2^n / step) step, where 2^n / step is normal.
Val scale_by(ScaledExp e, Val step) {
  return e.p * from_bits((bits(e.shifted) << mantissa(e.p)) - bits(step)) * step;
}

}  // namespace

Val scale(ScaledExp e) {
  return scale_by(e, where(e.shifted < exponent_magic(e.p), e.p.of(0x1p-64), 0x1p64));
}

Val scale_down(ScaledExp e) { return scale_by(e, e.p.of(0x1p-64)); }

// Far below the range, select the result instead of computing it: a product that underflows is slow on many
// processors, and a masked softmax has many of them.
Val exp(Val x) {
  const Val top = at_most(x, pick(x, 88.73, 709.79));
  return where(x < pick(x, -104, -745.2), 0.0, scale(scaled_exp(top)));
}

Val expm1(Val a) {
  const Val x = at_least(at_most(a, pick(a, 88.73, 709.79)), pick(a, -20, -40));
  const auto [shifted, r] = reduce(x, magic(x));
  const Val q = fma(r * r, expm1_tail(r), r);
  const Val half = power_of_two(shifted, -1);  // 2^(n-1): 2^n would overflow too early
  const Val result = 2 * fma(half, q, half - 0.5);
  return where(abs(a) < pick(a, 0x1p-30, 0x1p-60), a, result);  // keeps -0 and denormals
}

Val one_minus_exp(Val x) {
  const Val shifted = fma(x, kLog2E, magic(x));
  // Omits the low part of ln 2: its effect on e^x is below 2^-26 of the result.
  const Val r = fma(shifted - magic(x), -kLn2HighF32, x);
  const Val power = power_of_two(shifted, 0);
  return fma(-power, fma(r * r, expm1_tail(r), r), 1 - power);
}

uint32_t exp(MathBuilder& b, Operands x) { return exp(Val(b, x[0])).id; }
uint32_t expm1(MathBuilder& b, Operands x) { return expm1(Val(b, x[0])).id; }

uint32_t exp2(MathBuilder& b, Operands operands) {
  const Val a(b, operands[0]);
  const Val x = at_least(at_most(a, pick(a, 128.5, 1024.5)), pick(a, -151, -1076));
  const Val shifted = x + exponent_magic(x);
  const Val r = x - (shifted - exponent_magic(x));
  // 2^r on |r| <= 1/2, relative error f32 2^-26, f64 2^-57.
  const Val p = polynomial(
      r, {1, 0x1.62e43p-1, 0x1.ebfb94p-3, 0x1.c6af9ep-5, 0x1.3b6818p-7, 0x1.5ef4ep-10, 0x1.1797bep-13},
      {1, 0x1.62e42fefa39efp-1, 0x1.ebfbdff82c5b3p-3, 0x1.c6b08d704a26fp-5, 0x1.3b2ab6fb9dacap-7,
       0x1.5d87fe78457b4p-10, 0x1.4309131675ab3p-13, 0x1.ffcbfe669076cp-17, 0x1.62bfb4c302ae8p-20,
       0x1.b52082d655ff4p-24, 0x1.e63b3aa01eda7p-28, 0x1.f0e67bd12c821p-32});
  return scale({p, shifted}).id;
}

// With e = e^-|x|, which never overflows: e / (1 + e) = e - e y and 1 / (1 + e) = 1 - y, where y = e / (1 +
// e). So the rounding of 1 + e hardly matters, and denormal results are kept.
uint32_t sigmoid(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val e = scale_down(scaled_exp(at_least(-abs(x), pick(x, -104, -745.2))));
  const Val top = where(x < 0, e, 1.0);
  return fma(-top, e / (e + 1), top).id;
}

// With e = e^2a - 1, tanh a = e / (e + 2). Written as h - h e / (e + 2) with h = e / 2 for small a, and as 1
// - 2 / (e + 2) for large a, so that the rounding of e + 2 hardly matters. Beyond the bound tanh rounds to 1.
uint32_t tanh(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val a = 2 * at_most(abs(x), pick(x, 9.1, 22));
  const auto [shifted, r] = reduce(a, magic(a));
  const Val q = fma(r * r, expm1_tail(r), r), power = power_of_two(shifted, 0);
  const Val e = fma(power, q, power - 1);
  const Val small = e < 2;
  const Val top = where(small, 0.5 * e, 1.0);
  return flip_sign(fma(-top, where(small, e, 2.0) / (e + 2), top), x).id;
}

uint32_t sinh(MathBuilder& b, Operands operands) {
  const Val a(b, operands[0]);
  const Hyperbolic h = hyperbolic(at_most(abs(a), pick(a, 89.6, 710.6)));
  return flip_sign(2 * fma(h.sinh_n, h.cosh_r, h.cosh_n * h.sinh_r), a).id;
}

uint32_t cosh(MathBuilder& b, Operands operands) {
  const Val a(b, operands[0]);
  const Hyperbolic h = hyperbolic(at_most(abs(a), pick(a, 89.6, 710.6)));
  return (2 * fma(h.cosh_n, h.cosh_r, h.sinh_n * h.sinh_r)).id;
}

}  // namespace tenon::math
