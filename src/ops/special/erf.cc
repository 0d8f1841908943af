// The functions erfinv, ndtri and erfcx. The quantile is Wichura's algorithm AS 241, PPND16 (Applied
// Statistics 37, 1988): rational functions with a relative error of 1e-16. Tested by
// tests/unit/ops/special_test.cc.
#include <cmath>
#include <numbers>

#include "src/ops/math/nonfinite.h"
#include "src/ops/math/quantile.h"
#include "src/ops/special/special.h"

namespace tenon::special {
namespace {

double ratio(const quantile::Ratio& r, double x) {
  double p = 0, q = 0;
  for (int i = quantile::kTerms; i-- > 0;) {
    p = p * x + r.numerator[i];
    q = q * x + r.denominator[i];
  }
  return p / q;
}

// The quantile of 1/2 + q. tail: 1/2 - |q|.
double quantile_of(double q, double tail) {
  if (std::fabs(q) <= quantile::kCentre) return q * ratio(quantile::kCentral, quantile::kCentre2 - q * q);
  const double r = std::sqrt(-std::log(tail));
  const double x = r <= quantile::kFar ? ratio(quantile::kMiddle, r - quantile::kNear)
                                       : ratio(quantile::kTail, r - quantile::kFar);
  return std::copysign(x, q);
}

}  // namespace

double erfinv(double x) {
  if (!(std::fabs(x) <= 1)) return kNaN;
  if (std::fabs(x) == 1) return std::copysign(kInf, x);
  return quantile_of(x / 2, (1 - std::fabs(x)) / 2) * std::numbers::sqrt2 / 2;
}

double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p == 0 || p == 1) return p == 0 ? -kInf : kInf;
  return quantile_of(p - 0.5, p < 0.5 ? p : 1 - p);
}

double erfcx(double x) {
  if (x > 25) {
    // DLMF 7.12.1
    const double s = 1 / (2 * x * x);
    double sum = 1;
    for (int odd = 15; odd > 0; odd -= 2) sum = 1 - odd * s * sum;
    return sum / (x * std::sqrt(std::numbers::pi));
  }
  const double square = x * x,
               rest = std::fma(x, x, -square);  // the rounding error, which the exponential would magnify
  if (x < -26.7) return kInf;
  return std::exp(square) * (1 + rest) * std::erfc(x);
}

}  // namespace tenon::special
