// The incomplete gamma functions P and Q (DLMF 8.2). The smaller of the two is computed directly: by the
// series of P, by the series of Q for small a and x, by the continued fraction of Q, or by Temme's uniform
// expansion if a is large and x is near a. Tested by tests/unit/ops/special_test.cc.
#include <array>
#include <cmath>
#include <numbers>

#include "src/ops/math/nonfinite.h"
#include "src/ops/special/special.h"

namespace tenon::special {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kFine = 0x1p-54,
                 kCoarse = 0x1p-30;  // relative to the sum: when f64 and f32 stop adding terms
constexpr double kLargeOrder = 200;  // from here on kOrders terms of Temme's expansion suffice for f64
constexpr double kNearOrder = 0.3;   // |x - a| / a

// log(1 + d) - d, accurate near 0.
double log1p_minus(double d) {
  if (std::fabs(d) > 0.25) return std::log1p(d) - d;
  // log((1 + s) / (1 - s)) with s = d / (2 + d): 2 (s + s^3 / 3 + s^5 / 5 + ...)
  const double s = d / (2 + d), s2 = s * s;
  double tail = 0;
  for (int k = 19; k >= 3; k -= 2) tail = s2 * (1.0 / k + tail);
  return 2 * s * tail - s * d;
}

// log Gamma(1 + a) for 0 <= a <= 1.2 (DLMF 5.7.3), accurate near 0.
double lgamma1p(double a) {
  constexpr int kTerms = 30;
  static const auto kFactors = [] {
    std::array<double, kTerms> c{};
    for (int k = 2; k < kTerms; ++k) c[k] = zeta(k, 2) / k;
    return c;
  }();
  if (a > 0.3) return lgamma(1 + a);
  double sum = 0;
  for (int k = kTerms; k-- > 2;) sum = -a * (kFactors[k] + sum);
  return -a * sum + a * (1 - std::numbers::egamma) - std::log1p(a);
}

// x^a e^-x / Gamma(a + 1).
double power_term(double a, double x, double epsilon) {
  if (epsilon == kCoarse && a < 20) return std::exp(a * std::log(x) - x - lgamma(a + 1));
  if (a < 140) {
    const double power = std::pow(x, a), decay = std::exp(-x);
    if (power < 0x1p1000 && power > 0x1p-1000 && decay > 0x1p-1000) return power * decay / std::tgamma(a + 1);
    if (a < 20) return std::exp(a * std::log(x) - x - lgamma(a + 1));
  }
  // Gamma(a + 1) by Stirling's series (DLMF 5.11.1). Exponents that cancel are combined (Loader, "Fast and
  // accurate computation of binomial probabilities", 2000).
  const double s = 1 / (a * a);
  const double stirling = (1.0 / 12 + s * (-1.0 / 360 + s * (1.0 / 1260 + s * (-1.0 / 1680 + s / 1188)))) / a;
  return std::exp(a * log1p_minus((x - a) / a) - stirling) / std::sqrt(2 * kPi * a);
}

// DLMF 8.11.4.
double lower_by_series(double a, double x, double epsilon) {
  double sum = 1, term = 1;
  for (double k = a + 1; term > epsilon * sum; ++k) sum += term *= x / k;
  return power_term(a, x, epsilon) * sum;
}

// 1 - P with P = x^a / Gamma(1 + a) (1 + a sum of (-x)^k / (k! (a + k))), DLMF 8.7.1, for x and a up to about 1.
double upper_by_series(double a, double x) {
  double sum = 0, term = 1;
  for (int k = 1; k < 40; ++k) {
    term *= -x / k;
    sum += term / (a + k);
  }
  const double exponent = a * std::log(x) - lgamma1p(a);
  return -std::expm1(exponent) - std::exp(exponent) * a * sum;
}

// DLMF 8.9.2 in its even form, by Lentz's method.
double upper_by_fraction(double a, double x, double epsilon) {
  double b = x + 1 - a, c = 1 / 0x1p-1000, d = 1 / b, h = d;
  for (int k = 1; k < 10000; ++k) {
    const double n = -k * (k - a);
    b += 2;
    d = 1 / (n * d + b);
    c = b + n / c;
    h *= c * d;
    if (std::fabs(c * d - 1) < epsilon) break;
  }
  return power_term(a, x, epsilon) * a * h;
}

// Temme's expansion (DLMF 8.12.3 to 8.12.12); P and Q are each computed directly.
double uniform(double a, double x, bool upper) {
  constexpr int kOrders = 8, kPowers = 20, kAll = kPowers + 2 * kOrders;
  static const auto kFactors = [] {
    std::array<double, kAll + 3> alpha{};  // lambda - 1 in powers of eta
    alpha[1] = 1;
    for (int k = 2; k < kAll + 3; ++k) {
      double sum = alpha[k - 1];
      for (int j = 2; j < k; ++j) sum -= j * alpha[j] * alpha[k - j + 1];
      alpha[k] = sum / (k + 1);
    }
    constexpr double kStirling[kOrders] = {1,
                                           1.0 / 12,
                                           1.0 / 288,
                                           -139.0 / 51840,
                                           -571.0 / 2488320,
                                           163879.0 / 209018880,
                                           5246819.0 / 75246796800,
                                           -534703531.0 / 902961561600};
    std::array<std::array<double, kAll>, kOrders> d{};
    d[0][0] = -1.0 / 3;
    for (int k = 1; k < kAll; ++k) d[0][k] = (k + 2) * alpha[k + 2];
    for (int n = 1; n < kOrders; ++n)
      for (int k = 0; k + 2 * n < kAll; ++k)
        d[n][k] = (n % 2 ? -1 : 1) * kStirling[n] * d[0][k] + (k + 2) * d[n - 1][k + 2];
    return d;
  }();
  const double delta = (x - a) / a, half_square = -log1p_minus(delta);
  const double eta = std::copysign(std::sqrt(2 * half_square), delta);
  double sum = 0;
  for (int n = kOrders; n-- > 0;) {
    double c = 0;
    for (int k = kPowers; k-- > 0;) c = c * eta + kFactors[n][k];
    sum = sum / a + c;
  }
  const double rest = std::exp(-a * half_square) / std::sqrt(2 * kPi * a) * sum;
  const double argument = eta * std::sqrt(a / 2);
  return upper ? std::erfc(argument) / 2 + rest : std::erfc(-argument) / 2 - rest;
}

// Neither a nor x may be 0 or infinite.
double incomplete(double a, double x, bool upper, double epsilon) {
  if (a > kLargeOrder && std::fabs(x - a) < kNearOrder * a) return uniform(a, x, upper);
  if (x > 1.1 && x > a) {
    const double q = upper_by_fraction(a, x, epsilon);
    return upper ? q : 1 - q;
  }
  const double p = lower_by_series(a, x, epsilon);
  if (!upper) return p;
  return p > 0.5 && x <= 1.1 ? upper_by_series(a, x) : 1 - p;
}

double at_edges(double a, double x, bool upper, double epsilon) {
  const double none = upper ? 1 : 0, all = 1 - none;
  if (a < 0 || x < 0) return kNaN;
  if (a == 0) return x > 0 ? all : kNaN;
  if (x == 0) return none;
  if (a == kInf) return x == kInf ? kNaN : none;
  if (x == kInf) return all;
  if (std::isnan(a) || std::isnan(x)) return kNaN;
  return incomplete(a, x, upper, epsilon);
}

}  // namespace

double igamma(double a, double x) { return at_edges(a, x, false, kFine); }
double igammac(double a, double x) { return at_edges(a, x, true, kFine); }
float igamma(float a, float x) { return static_cast<float>(at_edges(a, x, false, kCoarse)); }
float igammac(float a, float x) { return static_cast<float>(at_edges(a, x, true, kCoarse)); }

}  // namespace tenon::special
