// See bodies.h. Formulas as in torch.nn.functional.
#include <numbers>

#include "src/ops/bodies/body_help.h"

namespace tenon::bodies {
namespace {

double slope(const Node& node, std::string_view name) { return attr_as<double>(node, name); }

// min(max(x + 3, 0), 6)
ValueId relu6_of_shifted(Builder& b, ValueId x) {
  const ValueId shifted = b(ops::add, {x, like(b, x, 3)});
  return b(ops::minimum, {b(ops::maximum, {shifted, like(b, x, 0)}), like(b, x, 6)});
}

}  // namespace

ValueId relu(Builder& b, const Node& node) {
  const ValueId x = node.inputs[0];
  return b(ops::maximum, {b.scalar_int(0, dtype_of(b, x)), x});  // the second of two zeros wins: -0 stays
}

ValueId leaky_relu(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const ValueId low = b(ops::mul, {x, like(b, x, slope(node, "slope"))});
  return narrow(b, node, b(ops::where, {b(ops::gt, {x, like(b, x, 0)}), x, low}));
}

ValueId elu(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const ValueId low = b(ops::mul, {b(ops::expm1, {x}), like(b, x, slope(node, "alpha"))});
  return narrow(b, node, b(ops::where, {b(ops::gt, {x, like(b, x, 0)}), x, low}));
}

ValueId gelu(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  ValueId phi;
  if (attr_as<std::string>(node, "approximate") == "tanh") {
    // tanh(sqrt(2/pi) * (x + 0.044715 x^3))
    const ValueId cube = b(ops::mul, {b(ops::mul, {x, x}), x});
    const ValueId inner = b(ops::add, {x, b(ops::mul, {cube, like(b, x, 0.044715)})});
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    phi = b(ops::tanh, {b(ops::mul, {inner, like(b, x, scale)})});
  } else {
    phi = b(ops::erf, {b(ops::mul, {x, like(b, x, std::numbers::sqrt2 / 2)})});
  }
  const ValueId half = b(ops::mul, {x, like(b, x, 0.5)});
  return narrow(b, node, b(ops::mul, {half, b(ops::add, {phi, like(b, x, 1)})}));
}

ValueId silu(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  return narrow(b, node, b(ops::mul, {x, b(ops::sigmoid, {x})}));
}

ValueId mish(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  return narrow(b, node, b(ops::mul, {x, b(ops::tanh, {b(ops::log1p, {b(ops::exp, {x})})})}));
}

ValueId softplus(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const ValueId beta = like(b, x, slope(node, "beta"));
  const ValueId scaled = b(ops::mul, {x, beta});
  const ValueId soft = b(ops::div, {b(ops::log1p, {b(ops::exp, {scaled})}), beta});
  const ValueId straight = b(ops::gt, {scaled, like(b, x, slope(node, "threshold"))});
  return narrow(b, node, b(ops::where, {straight, x, soft}));
}

ValueId hardswish(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const ValueId gated = b(ops::mul, {x, relu6_of_shifted(b, x)});
  return narrow(b, node, b(ops::div, {gated, like(b, x, 6)}));
}

ValueId hardsigmoid(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  return narrow(b, node, b(ops::div, {relu6_of_shifted(b, x), like(b, x, 6)}));
}

ValueId hardtanh(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  return narrow(b, node, b(ops::clamp, {x, like(b, x, slope(node, "low")), like(b, x, slope(node, "high"))}));
}

ValueId stop_gradient(Builder&, const Node& node) { return node.inputs[0]; }

}  // namespace tenon::bodies
