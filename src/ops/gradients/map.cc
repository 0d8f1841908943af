// See gradients.h. The gradients of map rows: dy times the derivative, with PyTorch's conventions.
#include <numbers>

#include "src/ops/gradients/help.h"
#include "src/ops/rules/operand.h"

namespace tenon::gradients {
namespace {

using std::numbers::inv_sqrtpi, std::numbers::ln10, std::numbers::ln2;

// The gradient of operand i of maximum or minimum. `other`: where the other operand is the result. Equal
// operands get one half each.
Expr of_extreme(const Terms& t, Expr other) {
  return pick(other, 0, pick(equal(t.x(0), t.x(1)), t.dy() * 0.5, t.dy()));
}

}  // namespace

// ---- arithmetic ----

Status add(GradientContext& c) {
  for (size_t i : {0, 1}) give(c, i, [](const Terms& t) { return t.dy(); });
  return {};
}

Status sub(GradientContext& c) {
  give(c, 0, [](const Terms& t) { return t.dy(); });
  give(c, 1, [](const Terms& t) { return -t.dy(); });
  return {};
}

Status mul(GradientContext& c) {
  give(c, 0, [](const Terms& t) { return t.dy() * t.x(1); });
  give(c, 1, [](const Terms& t) { return t.dy() * t.x(0); });
  return {};
}

Status div(GradientContext& c) {
  give(c, 0, [](const Terms& t) { return t.dy() / t.x(1); });
  give(c, 1, [](const Terms& t) { return -t.dy() * (t.x(0) / t.x(1)) / t.x(1); });
  return {};
}

Status fma(GradientContext& c) {
  TENON_TRY(mul(c));
  give(c, 2, [](const Terms& t) { return t.dy(); });
  return {};
}

Status remainder(GradientContext& c) {
  give(c, 0, [](const Terms& t) { return t.dy(); });
  give(c, 1, [](const Terms& t) { return -t.dy() * call(ops::floor_div, t.x(0), t.x(1)); });
  return {};
}

Status fmod(GradientContext& c) {
  give(c, 0, [](const Terms& t) { return t.dy(); });
  give(c, 1, [](const Terms& t) { return -t.dy() * call(ops::trunc_div, t.x(0), t.x(1)); });
  return {};
}

// The derivative is 0 where the formula has 0 * inf: by the base for exponent 0, by the exponent for base 0.
Status pow(GradientContext& c) {
  const auto exponent = number_of(c.b.graph(), c.node.inputs[1]);
  if (exponent != 0.0) {
    give(c, 0, [&](const Terms& t) {
      const Expr e = t.x(1), slope = t.dy() * (e * call(ops::pow, t.x(0), e - 1.0));
      return exponent ? slope : pick(equal(e, 0), 0, slope);
    });
  }
  give(c, 1, [](const Terms& t) {
    const Expr a = t.x(0), at_zero = both(equal(a, 0), call(ops::ge, t.x(1), number(a, 0)));
    return pick(at_zero, 0, t.dy() * (t.y() * call(ops::log, a)));
  });
  return {};
}

Status maximum(GradientContext& c) {
  give(c, 0, [](const Terms& t) { return of_extreme(t, less(t.x(0), t.x(1))); });
  give(c, 1, [](const Terms& t) { return of_extreme(t, less(t.x(1), t.x(0))); });
  return {};
}

Status minimum(GradientContext& c) {
  give(c, 0, [](const Terms& t) { return of_extreme(t, less(t.x(1), t.x(0))); });
  give(c, 1, [](const Terms& t) { return of_extreme(t, less(t.x(0), t.x(1))); });
  return {};
}

Status clamp(GradientContext& c) {
  give(c, 0, [](const Terms& t) {
    const Expr inside = both(call(ops::ge, t.x(0), t.x(1)), call(ops::le, t.x(0), t.x(2)));
    return pick(inside, t.dy(), 0);
  });
  give(c, 1,
       [](const Terms& t) { return pick(both(less(t.x(1), t.x(2)), less(t.x(0), t.x(1))), t.dy(), 0); });
  give(c, 2,
       [](const Terms& t) { return pick(either(less(t.x(2), t.x(0)), less(t.x(2), t.x(1))), t.dy(), 0); });
  return {};
}

Status neg(GradientContext& c) {
  return only(c, [](const Terms& t) { return -t.dy(); });
}
Status abs(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::sign, t.x()); });
}
Status square(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * (2.0 * t.x()); });
}
Status reciprocal(GradientContext& c) {
  return only(c, [](const Terms& t) { return -t.dy() * (t.y() * t.y()); });
}
Status sqrt(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() / (2.0 * t.y()); });
}
Status rsqrt(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * -0.5 * (t.y() * t.y() * t.y()); });
}

// ---- exponential, logarithm and error functions ----

Status exp(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * t.y(); });
}
Status exp2(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * t.y() * ln2; });
}
Status expm1(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * (t.y() + 1.0); });
}
Status log(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() / t.x(); });
}
Status log2(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() / (t.x() * ln2); });
}
Status log10(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() / (t.x() * ln10); });
}
Status log1p(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() / (t.x() + 1.0); });
}
Status sigmoid(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * (t.y() * (1.0 - t.y())); });
}
Status tanh(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * (1.0 - t.y() * t.y()); });
}
Status erf(GradientContext& c) {
  return only(c, [](const Terms& t) {
    return t.dy() * (2 * inv_sqrtpi * call(ops::exp, -call(ops::square, t.x())));
  });
}
Status erfc(GradientContext& c) {
  return only(c, [](const Terms& t) {
    return t.dy() * (-2 * inv_sqrtpi * call(ops::exp, -call(ops::square, t.x())));
  });
}

// ---- trigonometric functions ----

Status sin(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::cos, t.x()); });
}
Status cos(GradientContext& c) {
  return only(c, [](const Terms& t) { return -t.dy() * call(ops::sin, t.x()); });
}
Status tan(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * (1.0 + t.y() * t.y()); });
}
Status asin(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::rsqrt, 1.0 - t.x() * t.x()); });
}
Status acos(GradientContext& c) {
  return only(c, [](const Terms& t) { return -t.dy() * call(ops::rsqrt, 1.0 - t.x() * t.x()); });
}
Status atan(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() / (1.0 + t.x() * t.x()); });
}
Status atan2(GradientContext& c) {
  auto scaled = [](const Terms& t) { return t.dy() / (t.x(0) * t.x(0) + t.x(1) * t.x(1)); };
  give(c, 0, [&](const Terms& t) { return scaled(t) * t.x(1); });
  give(c, 1, [&](const Terms& t) { return -scaled(t) * t.x(0); });
  return {};
}
Status sinh(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::cosh, t.x()); });
}
Status cosh(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::sinh, t.x()); });
}
Status asinh(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::rsqrt, t.x() * t.x() + 1.0); });
}
Status acosh(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() * call(ops::rsqrt, t.x() * t.x() - 1.0); });
}
Status atanh(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy() / (1.0 - t.x() * t.x()); });
}

// ---- selection and conversion ----

Status where(GradientContext& c) {
  give(c, 1, [](const Terms& t) { return pick(t.given(0), t.dy(), 0); });
  give(c, 2, [](const Terms& t) { return pick(t.given(0), 0, t.dy()); });
  return {};
}

Status cast(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy(); });
}

}  // namespace tenon::gradients
