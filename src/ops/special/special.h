// Special: the functions of special.def on one element, with loops that a math body cannot have. Results are
// within a few units in the last place of an f64, with two exceptions: near zeros of oscillating functions
// the error is a few units of the neighbouring values, and far outside the usual domain the function is
// ill-conditioned. NaN operands give NaN. Values at poles, at infinities and outside the domain are
// PyTorch's, and so are the recurrences of the polynomials, which are computed in f32 for f32. Any thread.
// Tested by tests/unit/ops/special_test.cc.
#pragma once

#include <cstdint>

namespace tenon::special {

// src/ops/special/gamma.cc
double lgamma(double x);
double digamma(double x);
double zeta(double s, double q);
double polygamma(double n, double x);
float polygamma(float n, float x);
// src/ops/special/igamma.cc
double igamma(double a, double x);
double igammac(double a, double x);
float igamma(float a, float x);  // in f64 arithmetic, to the precision of an f32
float igammac(float a, float x);
// src/ops/special/erf.cc
double erfinv(double x);
double ndtri(double p);
double erfcx(double x);
// src/ops/special/bessel.cc
double i0(double x);
double i0e(double x);
double i1(double x);
double i1e(double x);
double k0(double x);
double k0e(double x);
double k1(double x);
double k1e(double x);
double j0(double x);
double j1(double x);
double y0(double x);
double y1(double x);
double airy_ai(double x);
// src/ops/special/polynomial.cc, in f32 and f64
#define TENON_POLYNOMIAL(name)          \
  double name(double x, double degree); \
  float name(float x, float degree);
TENON_POLYNOMIAL(chebyshev_t)
TENON_POLYNOMIAL(chebyshev_u)
TENON_POLYNOMIAL(chebyshev_v)
TENON_POLYNOMIAL(chebyshev_w)
TENON_POLYNOMIAL(hermite_h)
TENON_POLYNOMIAL(hermite_he)
TENON_POLYNOMIAL(laguerre_l)
TENON_POLYNOMIAL(legendre_p)
#undef TENON_POLYNOMIAL
int64_t gcd(int64_t a, int64_t b);
int64_t lcm(int64_t a, int64_t b);

}  // namespace tenon::special
