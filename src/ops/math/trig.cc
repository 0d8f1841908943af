// Trigonometric functions and their inverses. Tested by tests/unit/ops/math_test.cc.
//
// sin, cos and tan subtract a multiple of pi / 2 that is split into three floats (Cody and Waite). The first
// difference is exact, so a result near a zero keeps its digits. The rows sin_far, cos_far and tan_far
// compute operands that are too large for this.
#include "src/ops/math/value.h"

#include <array>
#include <cmath>

namespace tenon::math {
namespace {

// pi / 2 as the sum of three floats.
constexpr std::array kHalfPiF32{0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50};
constexpr std::array kHalfPiF64{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
constexpr double kInverseHalfPi = 0x1.45f306dc9c883p-1;

// x = n pi / 2 + r with an integer n. The field n holds the bits of a float whose lowest two bits are those
// of the integer. |r| <= 0.89, because an x halfway between two multiples may get either n.
struct Turned {
  Val n, sin_r, cos_r;
};
Turned turned(Val x) {
  const Val shifted = x * kInverseHalfPi + magic(x);
  const Val turns = shifted - magic(x);
  Val r = x;
  for (const double part : x.wide() ? kHalfPiF64 : kHalfPiF32) r = fma(turns, -part, r);
  const Val s = r * r;
  // Relative errors: f32 2^-26 and 2^-31, f64 2^-62 and 2^-60.
  const Val sin_tail =
      polynomial(s, {-0x1.555532p-3, 0x1.11008cp-7, -0x1.9740ep-13},
                 {-0x1.5555555555555p-3, 0x1.1111111111086p-7, -0x1.a01a01a006ee5p-13, 0x1.71de3a41c1a46p-19,
                  -0x1.ae644124e766cp-26, 0x1.6117f41939a9cp-33, -0x1.a74bacd6115fbp-41});
  const Val cos_tail = polynomial(s, {0x1.55553ep-5, -0x1.6c058ep-10, 0x1.9834ep-16},
                                  {0x1.5555555555524p-5, -0x1.6c16c16c105ddp-10, 0x1.a01a01962ae87p-16,
                                   -0x1.27e4f3da687b0p-22, 0x1.1ee7627e2eef5p-29, -0x1.8e817368386e2p-37});
  return {bits(shifted), fma(r * s, sin_tail, r), fma(s, fma(s, cos_tail, -0.5), 1)};
}

Val is_odd(Val n) { return make(ops::ne, n & n.of_int(1), n.of_int(0)); }

// sin(x + quarters pi / 2), which is +-sin r or +-cos r.
Val sine(Val x, int quarters) {
  auto [n, sin_r, cos_r] = turned(x);
  if (quarters) n = make(ops::add, n, n.of_int(quarters));
  const Val y = where(is_odd(n), cos_r, sin_r);
  const Val negative = (n >> 1) << (x.wide() ? 63 : 31);
  return from_bits(bits(y) ^ negative);
}

// y, or NaN if the n of turned() could be off by more; the rows *_far compute those.
Val if_near(Val x, Val y) { return where(abs(x) < pick(x, 0x1p20, 0x1p30), y, kNaN); }

// (atan z - z) / z^3 as a polynomial in z^2, |z| <= 1; relative error of atan f32 2^-25, f64 2^-57.
Val atan_near_zero(Val z) {
  const Val s = z * z;
  return fma(
      z * s,
      polynomial(
          s,
          {-0x1.5554dcp-2, 0x1.9978ecp-3, -0x1.230a9cp-3, 0x1.b4df6p-4, -0x1.35537cp-4, 0x1.61f7dap-5,
           -0x1.0c26b6p-6, 0x1.7ecb44p-9},
          {-0x1.5555555555526p-2, 0x1.99999999955b1p-3,  -0x1.249249237f4a3p-3, 0x1.c71c717fcc5dbp-4,
           -0x1.745d11ae415d6p-4, 0x1.3b136697fe736p-4,  -0x1.110e511696708p-4, 0x1.e1bba5b6afa24p-5,
           -0x1.ae5e6fcbbaaa7p-5, 0x1.82dace19a4026p-5,  -0x1.59a3e7400035fp-5, 0x1.2c2e2d6b34534p-5,
           -0x1.e9f97928bad1cp-6, 0x1.683c1225c7051p-6,  -0x1.c78e6bfc995dp-7,  0x1.d7b71f1ecf862p-8,
           -0x1.7a37646a1ce1p-9,  0x1.b3f772f6dd386p-11, -0x1.3f3329dc7238p-13, 0x1.bbe823562286bp-17}),
      z);
}

// (asin z - z) / z^3 as a polynomial in z^2, |z| <= 1/2; relative error of asin f32 2^-27, f64 2^-55.
Val asin_near_zero(Val z, Val s) {
  return fma(
      z * s,
      polynomial(s, {0x1.5555c8p-3, 0x1.330204p-4, 0x1.747bb8p-5, 0x1.8c3e56p-6, 0x1.595c54p-5},
                 {0x1.555555555539p-3, 0x1.333333336e83cp-4, 0x1.6db6db4277c77p-5, 0x1.f1c72c39ec5bdp-6,
                  0x1.6e89f42856c11p-6, 0x1.1c6be30634ab5p-6, 0x1.c6fda838abd06p-7, 0x1.8ec396367751cp-7,
                  0x1.abca8f487184fp-8, 0x1.3ff7cdae29937p-6, -0x1.09d81bb6328d7p-6, 0x1.056f391537f53p-5}),
      z);
}

// pi / 2 as the sum of two floats.
double half_pi(Val like) { return pick(like, 0x1.921fb6p+0, 0x1.921fb54442d18p+0); }
double half_pi_low(Val like) { return pick(like, -0x1.777a5cp-25, 0x1.1a62633145c07p-54); }

}  // namespace

uint32_t sin(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val a = abs(x);
  return make(ops::sin_far, if_near(x, flip_sign(sine(a, 0), x)), x).id;  // sin -0 is -0
}

uint32_t cos(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  return make(ops::cos_far, if_near(x, sine(x, 1)), x).id;
}

uint32_t tan(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const auto [n, sin_r, cos_r] = turned(abs(x));
  const Val odd = is_odd(n);
  const Val y = where(odd, -cos_r, sin_r) / where(odd, sin_r, cos_r);
  return make(ops::tan_far, if_near(x, flip_sign(y, x)), x).id;
}

uint32_t asin(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val a = abs(x);
  // asin a = pi / 2 - 2 asin(sqrt((1 - a) / 2)).
  const Val big = a > 0.5;
  const Val s = where(big, 0.5 * (1 - a), a * a);
  const Val y = asin_near_zero(where(big, sqrt(s), a), s);
  const Val turned = half_pi(x) - fma(y, 2.0, -half_pi_low(x));
  return flip_sign(where(big, turned, y), x).id;
}

uint32_t acos(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val a = abs(x);
  const Val big = a > 0.5;
  const Val s = where(big, 0.5 * (1 - a), a * a);
  const Val y = asin_near_zero(where(big, sqrt(s), a), s);
  const Val near_pole = where(x < 0, 2 * half_pi(x) - fma(y, 2.0, -2 * half_pi_low(x)), 2 * y);
  return where(big, near_pole, half_pi(x) - (flip_sign(y, x) - half_pi_low(x))).id;
}

uint32_t atan(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val a = abs(x);
  const Val big = a > 1;
  const Val y = atan_near_zero(where(big, -1.0, a) / where(big, a, 1.0));
  return flip_sign(where(big, half_pi(x) + (y + half_pi_low(x)), y), x).id;
}

uint32_t atan2(MathBuilder& b, Operands operands) {
  const Val y(b, operands[0]), x(b, operands[1]);
  const Val a = abs(y), c = abs(x);
  const Val steep = a > c;
  const Val ratio = where(steep, -c, a) / where(steep, a, c);
  // Both infinite: 45 degrees. Both 0: 0.
  const Val z = where(a == c, where(a == 0, a, 1.0), ratio);
  const Val first = atan_near_zero(z);
  const Val acute = where(steep, half_pi(x) + (first + half_pi_low(x)), first);
  const Val x_bits = bits(x);
  const Val left = make(ops::lt, x_bits, x_bits.of_int(0));  // true for -0
  return flip_sign(where(left, 2 * half_pi(x) - (acute - 2 * half_pi_low(x)), acute), y).id;
}

}  // namespace tenon::math
