// See gradients.h. The gradients of special functions.
#include <cmath>
#include <numbers>

#include "src/ops/gradients/help.h"

namespace tenon::gradients {
namespace {

// Refuses the gradient of an operand for which no row computes the derivative.
Status unknown(const GradientContext& c, size_t operand) {
  const Terms t{const_cast<GradientContext&>(c)};
  if (!t.wants(operand)) return {};
  return unsupported("no op computes the derivative of " + std::string(op(c.node.op).name) + " by operand " +
                     std::to_string(operand));
}

// b^(a - 1) e^-b / Gamma(a), the derivative of igamma(a, b) by b.
Expr igamma_density(const Terms& t) {
  const Expr a = t.x(0), b = t.x(1);
  return call(ops::exp, (a - 1.0) * call(ops::log, b) - b - call(ops::lgamma, a));
}

// Near 0, where the formula divides by x, the value at 0.
Expr away_from_zero(const Terms& t, Expr slope, double at_zero) {
  return t.dy() * pick(equal(t.x(), 0), at_zero, slope);
}

// A polynomial's operands in f64, in which differences that vanish at an end of [-1, 1] keep enough digits.
struct Polynomial {
  explicit Polynomial(const Terms& t)
      : x(cast(t.x(0), DType::f64)),
        n(call(ops::maximum, call(ops::trunc, cast(t.x(1), DType::f64)), number(x, 0))),
        parity(1.0 - 2.0 * call(ops::remainder, n, number(n, 2))) {}
  Expr at(OpId row, double further = 0) const { return call(row, x, n + further); }
  Expr x;
  Expr n;       // the degree as the rows read it; a negative one is like 0
  Expr parity;  // (-1)^n
};

// The derivative over / under; where the point is near an end of `under`, at_end * (1 + slope * distance).
Expr beside(Expr distance, Expr at_end, Expr slope, Expr over, Expr under) {
  const Expr near = at_most(call(ops::abs, distance), 0x1p-20);
  return pick(near, at_end * (1.0 + slope * distance), over / pick(near, 1, under));
}

template <class F>
Status polynomial(GradientContext& c, F derivative) {
  return only(c, [&](const Terms& t) { return t.dy() * cast(derivative(Polynomial(t)), t.dy().dtype()); });
}

}  // namespace

// ---- gamma functions ----

Status lgamma(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::digamma, t.x()); });
}
Status digamma(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::polygamma, number(t.x(), 1), t.x()); });
}
// The order is a whole number, so there is no derivative by it.
Status polygamma(GradientContext& c) {
  give(c, 1, [](const Terms& t) { return t.dy() * call(ops::polygamma, t.x(0) + 1.0, t.x(1)); });
  return {};
}
Status zeta(GradientContext& c) {
  TENON_TRY(unknown(c, 0));
  give(c, 1, [](const Terms& t) { return t.dy() * -t.x(0) * call(ops::zeta, t.x(0) + 1.0, t.x(1)); });
  return {};
}
Status igamma(GradientContext& c) {
  TENON_TRY(unknown(c, 0));
  give(c, 1, [](const Terms& t) { return t.dy() * igamma_density(t); });
  return {};
}
Status igammac(GradientContext& c) {
  TENON_TRY(unknown(c, 0));
  give(c, 1, [](const Terms& t) { return -t.dy() * igamma_density(t); });
  return {};
}

// ---- error functions ----

Status erfinv(GradientContext& c) {
  const double half_root_pi = std::sqrt(std::numbers::pi) / 2;
  return only(c, [&](const Terms& t) { return t.dy() * (half_root_pi * call(ops::exp, t.y() * t.y())); });
}
Status ndtri(GradientContext& c) {
  const double root = std::sqrt(2 * std::numbers::pi);
  return only(c, [&](const Terms& t) { return t.dy() * (root * call(ops::exp, t.y() * t.y() * 0.5)); });
}
Status erfcx(GradientContext& c) {
  const double slope = 2 * std::numbers::inv_sqrtpi;
  return only(c, [&](const Terms& t) { return t.dy() * (2.0 * t.x() * t.y() - slope); });
}

// ---- Bessel functions ----

Status i0(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::i1, t.x()); });
}
Status i0e(GradientContext& c) {
  return only(
      c, [](const Terms& t) { return t.dy() * (call(ops::i1e, t.x()) - call(ops::sign, t.x()) * t.y()); });
}
Status i1(GradientContext& c) {
  return only(c, [](const Terms& t) { return away_from_zero(t, call(ops::i0, t.x()) - t.y() / t.x(), 0.5); });
}
Status i1e(GradientContext& c) {
  return only(c, [](const Terms& t) {
    return away_from_zero(t, call(ops::i0e, t.x()) - t.y() * (call(ops::sign, t.x()) + 1.0 / t.x()), 0.5);
  });
}
Status k0(GradientContext& c) {
  return only(c, [](const Terms& t) { return -t.dy() * call(ops::k1, t.x()); });
}
Status k0e(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * (t.y() - call(ops::k1e, t.x())); });
}
Status k1(GradientContext& c) {
  return only(c, [](const Terms& t) { return -t.dy() * (call(ops::k0, t.x()) + t.y() / t.x()); });
}
Status k1e(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * (t.y() - t.y() / t.x() - call(ops::k0e, t.x())); });
}
Status j0(GradientContext& c) {
  return only(c, [](const Terms& t) { return -t.dy() * call(ops::j1, t.x()); });
}
Status j1(GradientContext& c) {
  return only(c, [](const Terms& t) { return away_from_zero(t, call(ops::j0, t.x()) - t.y() / t.x(), 0.5); });
}
Status y0(GradientContext& c) {
  return only(c, [](const Terms& t) { return -t.dy() * call(ops::y1, t.x()); });
}
Status y1(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * (call(ops::y0, t.x()) - t.y() / t.x()); });
}

// ---- orthogonal polynomials; the degree is a whole number, so there is no derivative by it ----

// n U_{n-1}
Status chebyshev_t(GradientContext& c) {
  return only(c,
              [](const Terms& t) { return t.dy() * t.x(1) * call(ops::chebyshev_u, t.x(0), t.x(1) - 1.0); });
}
// ((n + 1) T_{n+1} - x U_n) / (x^2 - 1); the values at the ends follow from the differential equation, here and below.
Status chebyshev_u(GradientContext& c) {
  return polynomial(c, [](const Polynomial& p) {
    const Expr distance = call(ops::abs, p.x) - 1.0, sign = pick(less(p.x, 0), -p.parity, 1);
    const Expr over = (p.n + 1.0) * p.at(ops::chebyshev_t, 1) - p.x * p.at(ops::chebyshev_u);
    return beside(distance, sign * p.n * (p.n + 1.0) * (p.n + 2.0) / 3.0, (p.n * (p.n + 2.0) - 3.0) / 5.0,
                  over, p.x * p.x - 1.0);
  });
}
// ((2 n + 1) W_n - V_n) / (2 (x + 1))
Status chebyshev_v(GradientContext& c) {
  return polynomial(c, [](const Polynomial& p) {
    const Expr distance = p.x + 1.0, twice = 2.0 * p.n + 1.0;
    const Expr over = twice * p.at(ops::chebyshev_w) - p.at(ops::chebyshev_v);
    return beside(distance, -p.parity * p.n * (p.n + 1.0) * twice / 3.0, (2.0 - p.n * (p.n + 1.0)) / 5.0,
                  over, 2.0 * distance);
  });
}
// ((2 n + 1) V_n - W_n) / (2 (x - 1))
Status chebyshev_w(GradientContext& c) {
  return polynomial(c, [](const Polynomial& p) {
    const Expr distance = p.x - 1.0, twice = 2.0 * p.n + 1.0;
    const Expr over = twice * p.at(ops::chebyshev_v) - p.at(ops::chebyshev_w);
    return beside(distance, p.n * (p.n + 1.0) * twice / 3.0, (p.n * (p.n + 1.0) - 2.0) / 5.0, over,
                  2.0 * distance);
  });
}
// n (L_n - L_{n-1}) / x
Status laguerre_l(GradientContext& c) {
  return polynomial(c, [](const Polynomial& p) {
    const Expr over = p.n * (p.at(ops::laguerre_l) - p.at(ops::laguerre_l, -1));
    return beside(p.x, -p.n, (1.0 - p.n) / 2.0, over, p.x);
  });
}
// n (x P_n - P_{n-1}) / (x^2 - 1)
Status legendre_p(GradientContext& c) {
  return polynomial(c, [](const Polynomial& p) {
    const Expr distance = call(ops::abs, p.x) - 1.0, sign = pick(less(p.x, 0), -p.parity, 1);
    const Expr over = p.n * (p.x * p.at(ops::legendre_p) - p.at(ops::legendre_p, -1));
    return beside(distance, sign * p.n * (p.n + 1.0) / 2.0, (p.n * (p.n + 1.0) - 2.0) / 4.0, over,
                  p.x * p.x - 1.0);
  });
}
// 2 n H_{n-1}
Status hermite_h(GradientContext& c) {
  return only(
      c, [](const Terms& t) { return t.dy() * (2.0 * t.x(1)) * call(ops::hermite_h, t.x(0), t.x(1) - 1.0); });
}
// n He_{n-1}
Status hermite_he(GradientContext& c) {
  return only(c,
              [](const Terms& t) { return t.dy() * t.x(1) * call(ops::hermite_he, t.x(0), t.x(1) - 1.0); });
}

}  // namespace tenon::gradients
