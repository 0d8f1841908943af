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
