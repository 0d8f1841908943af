// log Gamma, its derivatives and the Hurwitz zeta function. Tested by tests/unit/ops/special_test.cc.
#include <cmath>
#include <initializer_list>
#include <numbers>

#include "src/ops/math/nonfinite.h"
#include "src/ops/special/special.h"

namespace tenon::special {
namespace {

// B(2k) / (2k)!, the factors of the Euler-Maclaurin sum (DLMF 24.2.1, 25.11.5).
constexpr double kBernoulli[] = {
    1.0 / 12,
    -1.0 / 720,
    1.0 / 30240,
    -1.0 / 1209600,
    1.0 / 47900160,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
    -174611.0 / 802857662698291200000.0,
    77683.0 / 14101100039391805440000.0,
    -236364091.0 / 1693824136731743669452800000.0,
};

// The zeta function for q > 0: sums terms until the Euler-Maclaurin sum of the rest converges, or until the
// rest is negligible.
double zeta_positive(double s, double q) {
  double sum = std::pow(q, -s), w = q;
  if (sum == 0 || sum == kInf) return sum;
  for (;;) {
    if (w > 0.8 * (s + 12)) break;  // the twelfth term of the rest is then below 1e-17 of it
    w += 1;
    const double term = std::pow(w, -s);
    sum += term;
    // The remaining terms sum to less than term (1 + w / (s - 1)).
    if (term * (1 + w / (s - 1)) < 0x1p-55 * sum) return sum;
  }
  const double last = std::pow(w, -s);
  sum += last * (w / (s - 1) - 0.5);  // the last term counts half
  double factor = s * last / w;
  for (int k = 0; k < 12; ++k) {
    const double term = factor * kBernoulli[k];
    sum += term;
    if (std::fabs(term) < 0x1p-55 * sum) break;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (w * w);
  }
  return sum;
}

// As PyTorch computes it: six steps up and three terms of DLMF 5.15.8, to 1e-9. At a pole the value depends
// on the sine of a rounded multiple of pi.
template <class T>
T trigamma(T x) {
  T sign = 1, result = 0;
  if (x < T(0.5)) {
    sign = -1;
    const T sine = std::sin(std::numbers::pi_v<T> * x);
    result -= std::numbers::pi_v<T> * std::numbers::pi_v<T> / (sine * sine);
    x = 1 - x;
  }
  for (int i = 0; i < 6; ++i) {
    result += 1 / (x * x);
    x += 1;
  }
  const T s = 1 / (x * x);
  result += (1 + 1 / (2 * x) + s * (T(1.0 / 6) - s * (T(1.0 / 30) - s * T(1.0 / 42)))) / x;
  return sign * result;
}

}  // namespace

double lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  double sum = 0;
  if (x < 0) {
    if (x == std::trunc(x)) return kNaN;
    double whole;
    const double fraction = std::modf(x, &whole);
    sum = -std::numbers::pi / std::tan(std::numbers::pi * fraction);  // DLMF 5.5.4
    x = 1 - x;
  }
  while (x < 10) {
    sum -= 1 / x;
    x += 1;
  }
  if (x == kInf) return kInf;
  // DLMF 5.11.2
  const double s = 1 / (x * x);
  double tail = 0;
  for (double c : {-1.0 / 12, 691.0 / 32760, -1.0 / 132, 1.0 / 240, -1.0 / 252, 1.0 / 120, -1.0 / 12})
    tail = s * (c + tail);
  return sum + (std::log(x) - 0.5 / x + tail);
}

double zeta(double s, double q) {
  if (s == 1) return kInf;
  if (s < 1) return kNaN;
  if (q <= 0 && q == std::floor(q)) return kInf;
  if (!(q < kInf) || std::isnan(s)) return kNaN;
  if (s == kInf) return q > 0 && q <= 1 ? std::pow(q, -s) : kNaN;
  if (q > 0) return zeta_positive(s, q);
  if (s != std::floor(s)) return kNaN;
  // The terms below 0 have the magnitudes of r, r + 1, ... -q and the sign of (-1)^s.
  const double sign = std::fmod(s, 2) == 0 ? 1 : -1;
  const double count = std::floor(-q) + 1, above = q + count;
  if (count > 30) {
    const double r = -q - (count - 1);
    return zeta_positive(s, above) + sign * (zeta_positive(s, r) - zeta_positive(s, 1 - q));
  }
  double sum = 0;
  for (double k = 0; k < count; ++k) sum += std::pow(q + k, -s);
  return sum + zeta_positive(s, above);
}

double polygamma(double n, double x) {
  if (n == -1) return lgamma(x);
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  return (std::fmod(n, 2) == 1 ? 1 : -1) * std::tgamma(n + 1) * zeta(n + 1, x);  // DLMF 25.11.12
}
float polygamma(float n, float x) {
  if (n == 1) return trigamma(x);
  return static_cast<float>(polygamma(static_cast<double>(n), static_cast<double>(x)));
}

}  // namespace tenon::special
