// See gradients.h. The gradients of activations; those of the bodies would give 0 * inf for large operands, or
// differ from PyTorch where an activation has a corner.
#include <numbers>

#include "src/ops/gradients/help.h"

namespace tenon::gradients {
namespace {

double attribute(const Terms& t, std::string_view name) { return attr_as<double>(t.c.node, name); }

}  // namespace

Status relu(GradientContext& c) {
  return only(c, [](const Terms& t) { return pick(at_most(t.y(), 0), 0, t.dy()); });
}

Status leaky_relu(GradientContext& c) {
  return only(c, [](const Terms& t) {
    return pick(less(number(t.x(), 0), t.x()), t.dy(), t.dy() * attribute(t, "slope"));
  });
}

Status elu(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr low = t.dy() * (attribute(t, "alpha") * call(ops::exp, t.x()));
    return pick(less(number(t.x(), 0), t.x()), t.dy(), low);
  });
}

// With f(x) = x * phi(x) the derivative is phi(x) + x * phi'(x).
Status gelu(GradientContext& c) {
  using std::numbers::inv_sqrtpi, std::numbers::sqrt2;
  return only(c, [](const Terms& t) {
    const Expr x = t.x();
    if (attr_as<std::string>(t.c.node, "approximate") == "tanh") {
      const Expr squared = x * x;
      const Expr bent = call(ops::tanh, sqrt2 * inv_sqrtpi * (x * (1.0 + 0.044715 * squared)));
      const Expr slope = sqrt2 * inv_sqrtpi * (1.0 + 3 * 0.044715 * squared);
      return t.dy() * (0.5 * (1.0 + bent) + 0.5 * x * (1.0 - bent * bent) * slope);
    }
    const Expr phi = 0.5 * (1.0 + call(ops::erf, x * (sqrt2 / 2)));
    const Expr density = inv_sqrtpi / sqrt2 * call(ops::exp, x * x * -0.5);
    return t.dy() * (phi + x * density);
  });
}

Status silu(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr s = call(ops::sigmoid, t.x());
    return t.dy() * (s * (1.0 + t.x() * (1.0 - s)));
  });
}

Status mish(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr x = t.x(), bent = call(ops::tanh, call(ops::log1p, call(ops::exp, x)));
    return t.dy() * (bent + x * call(ops::sigmoid, x) * (1.0 - bent * bent));
  });
}

Status softplus(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr scaled = t.x() * attribute(t, "beta");
    const Expr straight = less(number(scaled, attribute(t, "threshold")), scaled);
    return pick(straight, t.dy(), t.dy() * call(ops::sigmoid, scaled));
  });
}

Status hardswish(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr x = t.x(), bent = t.dy() * (x / 3.0 + 0.5);
    return pick(at_most(x, -3), 0, pick(less(x, 3), bent, t.dy()));
  });
}

Status hardsigmoid(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr inside = both(less(number(t.x(), -3), t.x()), less(t.x(), 3));
    return pick(inside, t.dy() / 6.0, 0);
  });
}

Status hardtanh(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Expr outside = either(at_most(t.x(), attribute(t, "low")),
                                call(ops::ge, t.x(), number(t.x(), attribute(t, "high"))));
    return pick(outside, 0, t.dy());
  });
}

}  // namespace tenon::gradients
