// pow, and the float forms of floor_div and remainder. Tested by tests/unit/ops/math_test.cc.
#include "src/ops/math/value.h"

namespace tenon::math {
namespace {

// By squaring, one step per bit of the exponent; wraps as multiplication does.
Val integer_power(Val a, Val e) {
  const int width = 8 * size_of(a.type());
  const Val zero = a.of_int(0), one = a.of_int(1);
  Val result = one, square = a;
  const int steps = info(a.type()).is_signed ? width - 1 : width;
  for (int i = 0; i < steps; ++i) {
    const Val set = make(ops::ne, e & e.of_int(int64_t{1} << i), zero);
    result = where(set, result * square, result);
    if (i + 1 < steps) square = square * square;
  }
  if (!info(a.type()).is_signed) return result;
  // Negative exponents: 1 for 1, +-1 for -1, else 0.
  const Val minus_one = a.of_int(-1);
  const Val sign = where(make(ops::eq, e & one, zero), one, minus_one);
  const Val inverse = where(make(ops::eq, a, one), one, where(make(ops::eq, a, minus_one), sign, zero));
  return where(make(ops::lt, e, zero), inverse, result);
}

// 1 for y = 0 or x = 1, whatever the other operand; NaN for a negative x and a fractional y; an odd power
// keeps x's sign.
Val power_cases(Val x, Val y, Val magnitude) {
  const Val whole = floor(y) == y, even = floor(0.5 * y) == 0.5 * y;
  const Val odd = whole & make(ops::logical_not, even);
  const Val signed_power = where(odd, flip_sign(magnitude, x), magnitude);
  const Val bad = (x < 0) & (x > -kInf) & make(ops::logical_not, whole);
  return where((y == 0) | (x == 1), 1.0, where(bad, kNaN, signed_power));
}

// y log2 a if a is 0, 1, inf or NaN; `product` otherwise.
Val exponent_cases(Val a, Val y, Val product) {
  const Val edge = where(a == 0, -kInf, a);  // 0, inf or NaN
  const Val t = where((a > 0) & (a < kInf), product, edge * y);
  return where((a == 1) & (y == y), 0.0, t);
}

// Computes 2^(y log2|x|) in f64: log2|x| to 2^-37, the power of two to 2^-34.
Val power_f32(Val x32, Val y32) {
  const Val x = cast(x32, DType::f64), y = cast(y32, DType::f64);
  const Val a = abs(x);
  const auto [e, f] = split_exponent(a);
  const Val s = f / (f + 2), s2 = s * s;
  const Val log = fma(s,
                      polynomial(s2, {0x1.71547652bee04p1, 0x1.ec709d12bae48p-1, 0x1.27777ff85041bp-1,
                                      0x1.a58d811a9ebfdp-2, 0x1.5ce8e806a25fbp-2}),
                      e);
  const Val t = at_least(at_most(exponent_cases(a, y, y * log), 200), -200);
  const Val shifted = t + magic(t);
  const Val r = t - (shifted - magic(t));
  const Val n = bits(shifted) << 52;
  const Val magnitude = polynomial(r, {1, 0x1.62e42ff0e1a5bp-1, 0x1.ebfbe07796f92p-3, 0x1.c6b08ac060975p-5,
                                       0x1.3b29f38ce6075p-7, 0x1.5d8a85e929f3ap-10, 0x1.445c927a9b68ap-13,
                                       0x1.fde63fdfd8b5bp-17}) *
                        from_bits(n + n.of_int(one_bits(t)));
  return cast(power_cases(x, y, magnitude), DType::f32);
}

// Computes log2|x| and its product with y as sums of two f64.
Val power_f64(Val x, Val y) {
  const Val a = abs(x);
  const auto [e, f] = split_exponent(a);
  // s = f / (2 + f) to twice the precision.
  const Val d = f + 2, d_low = f - (d - 2);
  const Val s = f / d, s_low = (fma(-s, d, f) - s * d_low) / d;
  const Val s2 = s * s, s2_low = fma(s, s, -s2) + 2 * s * s_low;
  // log(1 + f) / 2 = s + s (s^2 / 3 + s^4 T(s^2)); T: error 2^-66 of s.
  const double third = 0x1.5555555555555p-2, third_low = 0x1.5555555555555p-56;
  const Val v = s2 * third;
  const Val v_low = fma(s2, third, -v) + (s2 * third_low + s2_low * third) +
                    s2 * s2 *
                        polynomial(s2, {0x1.9999999999b3p-3, 0x1.2492492457d44p-3, 0x1.c71c722d6ace6p-4,
                                        0x1.745ce9e132017p-4, 0x1.3b1eec8884769p-4, 0x1.0f7fdc1499f46p-4,
                                        0x1.0e433b9c7cacp-4});
  const Val p = s * v, p_low = fma(s, v, -p) + (s * v_low + s_low * v) + s_low;
  const Val h = s + p, h_low = (p - (h - s)) + p_low;
  // Times 2 / ln 2, plus e.
  const double k = 0x1.71547652b82fep+1, k_low = 0x1.777d0ffda0d24p-55;
  const Val g = h * k, g_low = fma(h, k, -g) + (h * k_low + h_low * k);
  const Val sum = e + g, rest = (g - (sum - e)) + g_low;
  const Val log = sum + rest, log_low = rest - (log - sum);
  const Val t = at_least(at_most(exponent_cases(a, y, y * log), 1080), -1080);
  const Val t_low = where(abs(t) < 1080, fma(y, log, -t) + y * log_low, 0.0);
  const Val shifted = t + exponent_magic(t);
  const Val r = (t - (shifted - exponent_magic(t))) + where(t_low == t_low, t_low, 0.0);
  // 2^r as in exp2.
  const Val power = polynomial(
      r, {1, 0x1.62e42fefa39efp-1, 0x1.ebfbdff82c5b3p-3, 0x1.c6b08d704a26fp-5, 0x1.3b2ab6fb9dacap-7,
          0x1.5d87fe78457b4p-10, 0x1.4309131675ab3p-13, 0x1.ffcbfe669076cp-17, 0x1.62bfb4c302ae8p-20,
          0x1.b52082d655ff4p-24, 0x1.e63b3aa01eda7p-28, 0x1.f0e67bd12c821p-32});
  return power_cases(x, y, scale({power, shifted}));
}

}  // namespace

uint32_t pow(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]), y(b, operands[1]);
  if (!is_float(x.type())) return integer_power(x, y).id;
  return (x.wide() ? power_f64(x, y) : power_f32(x, y)).id;
}

uint32_t rsqrt(MathBuilder& b, Operands x) { return (1 / sqrt(Val(b, x[0]))).id; }

uint32_t remainder(MathBuilder& b, Operands x) {
  const Val a(b, x[0]), d(b, x[1]);
  const Val r = make(ops::fmod, a, d);
  return where((r != 0) & ((d < 0) ^ (r < 0)), r + d, r).id;
}

// The quotient of a - fmod(a, b), which is a whole number up to rounding, corrected to the floor.
uint32_t floor_div(MathBuilder& b, Operands x) {
  const Val a(b, x[0]), d(b, x[1]);
  const Val r = make(ops::fmod, a, d);
  const Val exact = (a - r) / d;
  const Val q = where((r != 0) & ((d < 0) ^ (r < 0)), exact - 1, exact);
  const Val low = floor(q);
  const Val whole = where(q - low > 0.5, low + 1, low);
  const Val ratio = a / d;
  return where(d == 0, ratio, where(q == 0, flip_sign(q.of(0), ratio), whole)).id;
}

}  // namespace tenon::math
