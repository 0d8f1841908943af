// Trigonometric functions and their inverses. Tested by tests/math_test.cc.
//
// sin, cos and tan count the angle in half turns, x / pi, exactly enough for every finite operand: 1 / pi
// is cut into
// pieces, the product of x with each is exact (or kept with its rounding error) and drops its whole turns
// at once. Which
// bits of 1 / pi matter depends on x's exponent: earlier ones contribute whole turns only.
#include "src/ops/math_value.h"

#include <array>
#include <cmath>
#include <vector>

namespace tenon::math {
namespace {

// 1 / pi = 0.3183..., the 1344 bits after the point.
constexpr const char* kInversePi =
    "517cc1b727220a94fe13abe8fa9a6ee06db14acc9e21c820ff28b1d5ef5de2b0db92371d2126e9700324977504e8c90e"
    "7f0ef58e5894d39f74411afa975da24274ce38135a2fbf209cc8eb1cc1a99cfa4e422fc5defc941d8ffc4bffef02cc07"
    "f79788c5ad05368fb69b3f6793e584dba7a31fb34f2ff516ba93dd63f5f2f8bd9e839cfbc529497535fdafd88fc6ae84"
    "2b0198237e3db5d5f867de104d7a1b0ed4f1c8b0af730d84";

// Bits first to first + width - 1 after the point of 1 / pi (the first one has number 1), times 2^exponent.
double inverse_pi(int first, int width, int exponent) {
  double sum = 0;
  for (int k = first; k < first + width; ++k) {
    const char digit = kInversePi[(k - 1) / 4];
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    if (value >> (3 - (k - 1) % 4) & 1) sum += std::ldexp(1.0, exponent - k);
  }
  return sum;
}

constexpr double kPi = 0x1.921fb54442d18p+1;

// x drops its multiples of 2.
Val within_turn(Val x) { return fma(round(0.5 * x), -2.0, x); }

// The angle |x| + shift in half turns (n + f, n whole, |f| <= 1/2) or, with quarters, in quarter turns (2
// * half turns
// = n + 2 f, |f| <= 1/4). n as magic + n, so that its low bits are those of the integer; all in f64.
struct Angle {
  Val n_bits, f;
};
// |x| < 2^128 with 24 significant bits. Within 32 exponents 29 + 29 + 53 bits of 1 / pi leave an error below
// 2^-56.
Angle angle_f32(Val x, double shift, bool quarters) {
  constexpr int kWidths[] = {29, 29, 53};
  Val piece[] = {x, x, x};
  for (int range = 0, first = 1; range < 4; first = 32 * ++range - 23)
    for (int k = 0, at = first; k < 3; at += kWidths[k++]) {
      const double bits = inverse_pi(at, kWidths[k], 0);
      piece[k] = range == 0 ? x.of(bits) : where(x >= std::ldexp(1.0, 32 * range), bits, piece[k]);
    }
  const Val a = within_turn(x * piece[0]), b = within_turn(x * piece[1]), c = x * piece[2];
  const double unit = quarters ? 2 : 1;
  const Val shifted = unit * (a + (b + c) + shift) + magic(x);
  const Val whole = (shifted - magic(x)) * (1 / unit) - shift;
  return {bits(shifted), ((a - whole) + b) + c};
}

// Any finite x. Within 64 exponents 5 * 53 bits of 1 / pi; the products' rounding errors are summed too.
Angle angle_f64(Val x, double shift, bool quarters) {
  constexpr int kPieces = 5;
  std::vector<Val> piece(kPieces, x);
  Val scaled = x;
  for (int range = 0; range < 16; ++range) {
    const Val here = x >= std::ldexp(1.0, 64 * range);
    if (range > 0) scaled = where(here, x * std::ldexp(1.0, -64 * range), scaled);
    for (int k = 0; k < kPieces; ++k) {
      const double bits = inverse_pi((range == 0 ? 1 : 64 * range - 52) + 53 * k, 53, 64 * range);
      piece[k] = range == 0 ? x.of(bits) : where(here, bits, piece[k]);
    }
  }
  // sum + low: exact sums of the coarse parts, their errors collected in low
  Val sum = x.of(0), low = x.of(0);
  auto add = [&](Val term) {
    const Val next = sum + term, back = next - sum;
    low = low + ((sum - (next - back)) + (term - back));
    sum = next;
  };
  for (int k = 0; k < kPieces; ++k) {
    const Val product = scaled * piece[k];
    add(within_turn(product));
    add(within_turn(fma(scaled, piece[k], -product)));
  }
  const double unit = quarters ? 2 : 1;
  const Val shifted = unit * (sum + shift) + magic(x);
  const Val whole = (shifted - magic(x)) * (1 / unit) - shift;
  return {bits(shifted), (sum - whole) + low};
}

Angle angle(Val x, double shift, bool quarters) {
  const Val a = abs(cast(x, DType::f64));
  return x.wide() ? angle_f64(a, shift, quarters) : angle_f32(a, shift, quarters);
}

// sin(pi (n + f)) = +-sin(pi f), in f64 to the end
Val sine(Val x, double shift) {
  const auto [n, f] = angle(x, shift, false);
  const Val r = from_bits(bits(f) ^ (n << 63)) * kPi;
  const Val s = r * r;
  // |r| <= pi / 2, relative error for f32 2^-27, for f64 2^-61
  const Val tail = polynomial(x.wide(), s, {-0x1.55554cp-3, 0x1.110edap-7, -0x1.9f70f2p-13, 0x1.5dc946p-19},
                              {-0x1.5555555555555p-3, 0x1.11111111110cdp-7, -0x1.a01a01a0155a1p-13,
                               0x1.71de3a52f50dp-19, -0x1.ae64550c93b07p-26, 0x1.6123e22313061p-33,
                               -0x1.ae4c9491c7548p-41, 0x1.8a450e2e6c5d6p-49, -0x1.90cfc4fb30878p-60});
  return cast(fma(r * s, tail, r), x.type());
}

// (atan z - z) / z^3 in z^2, |z| <= 1, relative error of atan f32 2^-25, f64 2^-57
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

// (asin z - z) / z^3 in z^2, |z| <= 1/2, relative error of asin f32 2^-27, f64 2^-55
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
  const Val y = flip_sign(sine(x, 0), x);
  return (x.wide() ? where(abs(x) < 0x1p-27, x, y) : y).id;  // the products of tiny f64 are denormal
}

uint32_t cos(MathBuilder& b, Operands operands) { return sine(Val(b, operands[0]), 0.5).id; }

// tan(r + n pi / 2) is tan r for even n, -1 / tan r for odd n.
uint32_t tan(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const auto [n, f] = angle(x, 0, true);
  const Val odd = n << 63;
  const Val r = from_bits(bits(f) ^ odd) * kPi;
  const Val s = r * r;
  // |r| <= pi / 4, relative error for f32 2^-25, f64 2^-60
  const Val p = r * polynomial(x.wide(), s, {0x1p0, -0x1.8850d8p-4},
                               {0x1p0, -0x1.112b1df88113ap-3, 0x1.c0e6366e5d527p-9, -0x1.2ba7417fc3ed4p-16}),
            q = polynomial(x.wide(), s, {1, -0x1.b769acp-2, 0x1.3e25cap-7},
                           {1, -0x1.ddeae45195df2p-2, 0x1.a478fff862704p-6, -0x1.46f3ad88bef16p-12,
                            0x1.0b70dd2c81a6p-21});
  const Val swap = make(ops::ne, odd, odd.of_int(0));
  const Val y = flip_sign(cast(where(swap, q, p) / where(swap, p, q), x.type()), x);
  return (x.wide() ? where(abs(x) < 0x1p-27, x, y) : y).id;
}

uint32_t asin(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val a = abs(x);
  // asin a = pi / 2 - 2 asin(sqrt((1 - a) / 2))
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
  // both infinite: 45 degrees; both 0: 0
  const Val z = where(a == c, where(a == 0, a, 1.0), ratio);
  const Val first = atan_near_zero(z);
  const Val acute = where(steep, half_pi(x) + (first + half_pi_low(x)), first);
  const Val x_bits = bits(x);
  const Val left = make(ops::lt, x_bits, x_bits.of_int(0));  // -0 counts
  return flip_sign(where(left, 2 * half_pi(x) - (acute - 2 * half_pi_low(x)), acute), y).id;
}

}  // namespace tenon::math
