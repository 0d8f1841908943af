// log |Gamma| of f32, in f64 arithmetic; for f64, the row polygamma. Tested by tests/unit/ops/math_test.cc.
#include <numbers>

#include "src/ops/math/value.h"

namespace tenon::math {
namespace {

// log Gamma(w) for w >= 8 by Stirling's series (DLMF 5.11.1).
Val stirling(Val w) {
  const Val s = 1 / (w * w);
  const Val tail =
      polynomial(s, {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156});
  return (w - 0.5) * make(ops::log, w) - w + (tail / w + 0.91893853320467274178);
}

}  // namespace

// Below 8: from Gamma(z + 8) / (z (z + 1) ... (z + 7)). Below 1/2: by reflection (DLMF 5.5.3). One logarithm
// covers all factors.
uint32_t lgamma(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  if (x.wide()) return make(ops::polygamma, x.of(-1), x).id;
  const Val y = cast(x, DType::f64);
  const Val reflected = y < 0.5;
  const Val z = where(reflected, 1 - y, y), low = z < 8;
  Val product = z;
  for (int k = 1; k < 8; ++k) product = product * (z + k);
  const Val main = stirling(where(low, z + 8, z)), factors = where(low, product, 1.0);
  // |sin(pi y)| / pi by its power series.
  const Val f = y - round(y), s = f * f;
  const Val sine =
      abs(f) * polynomial(s, {1, -0x1.a51a6625307d3p+0, 0x1.9f9cb402bc46cp-1, -0x1.86a8e4720db67p-3,
                              0x1.ac6805cf350a6p-6, -0x1.33816aa4607abp-9, 0x1.374719fab3915p-13,
                              -0x1.d42498d1ce099p-18, 0x1.0fc992ff39e13p-22, -0x1.f5f9d970ca6dfp-28,
                              0x1.79788684225eap-33, -0x1.d7353939082fep-39});
  const Val rest = make(ops::log, where(reflected, factors / sine, factors));
  const Val value = where((y - 1) * (y - 2) == 0, 0.0, where(reflected, rest - main, main - rest));
  return cast(where(abs(y) == kInf, kInf, value), x.type()).id;
}

}  // namespace tenon::math
