// erf, erfc, erfcx and the inverses of erf and of the normal distribution. Tested by
// tests/unit/ops/math_test.cc.
#include <numbers>
#include <optional>

#include "src/ops/math/quantile.h"
#include "src/ops/math/value.h"

namespace tenon::math {
namespace {

constexpr double kErfc[] = {
    0x1.058671b52c776p0,    -0x1.5fd386754eff9p-1,  0x1.1e2deea6b1165p-2,   -0x1.2a88e6107d387p-5,
    -0x1.606e415525e01p-6,  0x1.a89eaff846cecp-8,   0x1.9517bb6d55887p-9,   -0x1.b6fbf98362526p-11,
    -0x1.5ba437a152de8p-11, 0x1.205401fcfb3dap-15,  0x1.2efa141e29e76p-13,  0x1.1e76cc275df4dp-15,
    -0x1.6bfdd12f72a9ap-16, -0x1.0e7be59a4993p-16,  -0x1.2ed1a363104aep-20, 0x1.e97beb02ea7a1p-19,
    0x1.0dad635157f8ap-19,  -0x1.9c23730e84f2p-29,  -0x1.3a9eeb4461a64p-21, -0x1.57e9a87189c15p-22,
    0x1.1b2ec86b42cf9p-26,  0x1.da1026b231e35p-24,  0x1.6273d6a0cbfbp-25,   -0x1.c889acb637708p-27,
    -0x1.84169c006b417p-27, -0x1.1f52dff2410f6p-31, 0x1.6a8120fa20eb1p-31};

// erfc(a) for a >= 0: e^(-a^2) d G(t) with d = 1 / (a + 2), t = 1 - 4 d in [-1, 1). a^2 is computed together
// with its rounding error, which the exponential would magnify.
Val erfc_positive(Val a) {
  const Val x = at_most(a, pick(a, 10.1, 27.3));
  const Val high = x * x;
  const Val low = -fma(x, x, -high);
  const ScaledExp e = scaled_exp(-high, &low);
  const Val d = 1 / (x + 2);
  // Relative error f32 2^-22, f64 2^-54.
  const Val t = fma(d, -4, 1);
  const Val g =
      x.wide() ? horner(t, kErfc)
               : polynomial(t, {0x1.058672p0, -0x1.5fd366p-1, 0x1.1e2d92p-2, -0x1.2a9d0ap-5, -0x1.602e0cp-6,
                                0x1.aa3032p-8, 0x1.8cdf68p-9, -0x1.b459ecp-11, -0x1.14478ep-11});
  return scale_down({e.p * (d * g), e.shifted});
}

// Selects the coefficients of x's interval, then evaluates one rational function for all three intervals.
Val ratio_of(Val x, Val central, Val middle) {
  auto side = [&](const double(quantile::Ratio::* factors)[quantile::kTerms]) {
    std::optional<Val> sum;
    for (int i = quantile::kTerms; i-- > 0;) {
      const double a = (quantile::kCentral.*factors)[i], b = (quantile::kMiddle.*factors)[i],
                   c = (quantile::kTail.*factors)[i];
      const Val factor = a == b && b == c ? x.of(a) : where(central, a, where(middle, b, x.of(c)));
      sum = sum ? fma(*sum, x, factor) : factor;
    }
    return *sum;
  };
  return side(&quantile::Ratio::numerator) / side(&quantile::Ratio::denominator);
}

// The quantile of 1/2 + q, times `factor`. tail: 1/2 - |q|.
Val quantile_of(Val q, Val tail, double factor = 1) {
  const Val central = abs(q) <= quantile::kCentre;
  const Val r = sqrt(-make(ops::log, tail));
  const Val middle = r <= quantile::kFar;
  const Val ratio = ratio_of(
      where(central, quantile::kCentre2 - q * q, r - where(middle, quantile::kNear, r.of(quantile::kFar))),
      central, middle);
  const Val sign = where(central, q, flip_sign(q.of(1), q));
  return (factor == 1 ? sign : factor * sign) * ratio;
}

}  // namespace

uint32_t erf(MathBuilder& b, Operands operands) {
  const Val a(b, operands[0]);
  if (a.wide()) {
    const Val s = a * a;
    // |a| <= 1, relative error 2^-55.
    const Val small = a * polynomial(s, {0x1.20dd750429b6dp0, -0x1.812746b03798cp-2, 0x1.ce2f21a03de39p-4,
                                         -0x1.b82ce310e5316p-6, 0x1.565bccc4a1c22p-8, -0x1.c02da4871ac37p-11,
                                         0x1.f9a1111254ae2p-14, -0x1.f4a21795a5de6p-17, 0x1.b6e9989e538efp-20,
                                         -0x1.3ee7325d27a9ep-23, 0x1.de0ff0172d31dp-31, 0x1.e4062104f23cfp-28,
                                         -0x1.7c66328f7d07ap-29, 0x1.db77d3303d4b7p-32});
    const Val large = 1 - erfc_positive(abs(a));
    return where(abs(a) < 1, small, flip_sign(large, a)).id;
  }
  // 1 - e^v with v = log(erfc(|a|)), a polynomial whose first coefficient is the sum of two f32. The relative
  // error of erf is 2^-24.6 on |a| <= 3.93; beyond that erf rounds to 1.
  const Val x = at_most(abs(a), 3.93);
  const Val tail = polynomial_by_pairs(x, x * x,
                                       {0x1.f7ac92p-25, -0x1.45f2bcp-1, -0x1.a51948p-4, 0x1.3c3d78p-6,
                                        -0x1.75f9dcp-13, -0x1.4d322ep-10, 0x1.967ebp-12, -0x1.5cf07cp-15});
  return flip_sign(one_minus_exp(fma(x, -0x1.20dd76p+0, x * tail)), a).id;
}

uint32_t erfc(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val y = erfc_positive(abs(x));
  return where(x < 0, 2 - y, y).id;
}

// The factor G of erfc_positive in f64 arithmetic; beyond 26 the asymptotic series (DLMF 7.12.1).
uint32_t erfcx(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]), y = cast(x, DType::f64);
  const Val a = abs(y), d = 1 / (a + 2);
  const Val r = 0.5 / (a * a);
  const Val far = polynomial(r, {1, -1, 3, -15, 105, -945, 10395, -135135}) / (a * 1.7724538509055160273);
  const Val right = where(a > 26, far, d * horner(fma(d, -4, 1), kErfc));
  const Val bound = at_most(a, 27);
  const Val high = bound * bound, low = fma(bound, bound, -high);
  const ScaledExp e = scaled_exp(high, &low);
  const Val left = 2 * scale(e) - right;
  return cast(where(y < 0, where(y < -26.7, kInf, left), right), x.type()).id;
}

// In f64 arithmetic.
uint32_t ndtri(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]), p = cast(x, DType::f64);
  const Val q = p - 0.5, other = 1 - p;
  const Val y = quantile_of(q, where(p < 0.5, p, other));
  const Val inside = where(p == 0, -kInf, where(p == 1, kInf, y));
  return cast(where((p >= 0) & (p <= 1), inside, kNaN), x.type()).id;
}

// f32: polynomials in w = -log(1 - x^2), from M. Giles, "Approximating the erfinv function" (GPU Computing
// Gems 2, 2011). f64: from the quantile of the normal distribution at (1 + x) / 2.
uint32_t erfinv(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val a = abs(x);
  auto at_ends = [&](Val y) { return where(a == 1, x * kInf, where(a <= 1, y, kNaN)).id; };
  if (!x.wide()) {
    const Val w = -make(ops::log, (1 - a) * (1 + a));
    const Val near = w < 5;
    const Val t = where(near, w - 2.5, sqrt(w) - 3);
    constexpr double kNear[] = {1.50140941,     0.246640727,   -0.00417768164, -0.00125372503, 0.00021858087,
                                -4.39150654e-6, -3.5233877e-6, 3.43273939e-7,  2.81022636e-8},
                     kFar[] = {2.83297682,     1.00167406,    0.00943887047,  -0.0076224613,  0.00573950773,
                               -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257};
    Val sum = where(near, kNear[8], x.of(kFar[8]));
    for (int i = 8; i-- > 0;) sum = fma(sum, t, where(near, kNear[i], x.of(kFar[i])));
    return at_ends(sum * x);
  }
  const Val q = 0.5 * x, tail = 0.5 * (1 - a);
  return at_ends(quantile_of(q, tail, std::numbers::sqrt2 / 2));
}

}  // namespace tenon::math
