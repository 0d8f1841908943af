// The modified Bessel functions I0 and I1, in f64 arithmetic. Tested by tests/unit/ops/math_test.cc and
// tests/unit/ops/special_test.cc.
#include "src/ops/math/bessel_tables.h"
#include "src/ops/math/value.h"

namespace tenon::math {
namespace {

// e^-a I(a) for an f64 a >= 0; `small` and `large` have the precision of the result. For I1, `small` is a
// polynomial of I1(a) / a.
Val scaled(Val a, bool first, std::span<const double> small, std::span<const double> large) {
  const Val near = a <= 8;
  const Val x = where(near, a, 8.0), y = where(near, 8.0, a);  // each inside its polynomial's interval
  const Val inside = horner(0.25 * x - 1, small), beyond = horner(16 / y - 1, large) / sqrt(y);
  return where(near, first ? x * inside : inside, beyond);
}

Val scaled_i0(Val a, bool wide) {
  return wide ? scaled(a, false, bessel::kI0Small, bessel::kI0Large)
              : scaled(a, false, bessel::kI0SmallF32, bessel::kI0LargeF32);
}
Val scaled_i1(Val a, bool wide) {
  return wide ? scaled(a, true, bessel::kI1Small, bessel::kI1Large)
              : scaled(a, true, bessel::kI1SmallF32, bessel::kI1LargeF32);
}

// Multiplies by e^a, which may overflow first; NaN for infinity, as in PyTorch.
Val unscaled(Val y, Val a) {
  const Val half = exp(0.5 * a);
  return where(a == kInf, kNaN, y * half * half);
}

// I(|x|), or e^-|x| I(|x|) if is_scaled. of: scaled_i0 or scaled_i1.
Val first_kind(Val x, Val (*of)(Val a, bool wide), bool is_scaled) {
  const Val a = abs(cast(x, DType::f64)), y = of(a, x.wide());
  return is_scaled ? y : unscaled(y, a);
}
uint32_t even(Val x, Val y) { return cast(y, x.type()).id; }
uint32_t odd(Val x, Val y) { return cast(where(x < 0, -y, y), x.type()).id; }

}  // namespace

uint32_t i0e(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  return even(x, first_kind(x, scaled_i0, true));
}
uint32_t i0(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  return even(x, first_kind(x, scaled_i0, false));
}
uint32_t i1e(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  return odd(x, first_kind(x, scaled_i1, true));
}
uint32_t i1(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  return odd(x, first_kind(x, scaled_i1, false));
}

}  // namespace tenon::math
