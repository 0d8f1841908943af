// erf and erfc. Tested by tests/math_test.cc.
#include "src/ops/math_value.h"

namespace tenon::math {
namespace {

// erfc(a) for a >= 0: e^(-a^2) d G(t) with d = 1 / (a + 2), t = 1 - 4 d in [-1, 1). a^2 is taken
// with its rounding error, which the exponential would magnify.
Val erfc_positive(Val a) {
  const Val x = at_most(a, pick(a, 10.1, 27.3));
  const Val high = x * x;
  const Val low = -fma(x, x, -high);
  const ScaledExp e = scaled_exp(-high, &low);
  const Val d = 1 / (x + 2);
  // relative error f32 2^-22, f64 2^-54
  const Val g = polynomial(
      fma(d, -4, 1),
      {0x1.058672p0, -0x1.5fd366p-1, 0x1.1e2d92p-2, -0x1.2a9d0ap-5, -0x1.602e0cp-6, 0x1.aa3032p-8,
       0x1.8cdf68p-9, -0x1.b459ecp-11, -0x1.14478ep-11},
      {0x1.058671b52c776p0,    -0x1.5fd386754eff9p-1,  0x1.1e2deea6b1165p-2,   -0x1.2a88e6107d387p-5,
       -0x1.606e415525e01p-6,  0x1.a89eaff846cecp-8,   0x1.9517bb6d55887p-9,   -0x1.b6fbf98362526p-11,
       -0x1.5ba437a152de8p-11, 0x1.205401fcfb3dap-15,  0x1.2efa141e29e76p-13,  0x1.1e76cc275df4dp-15,
       -0x1.6bfdd12f72a9ap-16, -0x1.0e7be59a4993p-16,  -0x1.2ed1a363104aep-20, 0x1.e97beb02ea7a1p-19,
       0x1.0dad635157f8ap-19,  -0x1.9c23730e84f2p-29,  -0x1.3a9eeb4461a64p-21, -0x1.57e9a87189c15p-22,
       0x1.1b2ec86b42cf9p-26,  0x1.da1026b231e35p-24,  0x1.6273d6a0cbfbp-25,   -0x1.c889acb637708p-27,
       -0x1.84169c006b417p-27, -0x1.1f52dff2410f6p-31, 0x1.6a8120fa20eb1p-31});
  return scale_down({e.p * (d * g), e.shifted});
}

}  // namespace

uint32_t erf(MathBuilder& b, Operands operands) {
  const Val a(b, operands[0]);
  if (a.wide()) {
    const Val s = a * a;
    // |a| <= 1, relative error 2^-55
    const Val small = a * polynomial(s, {0x1.20dd750429b6dp0, -0x1.812746b03798cp-2, 0x1.ce2f21a03de39p-4,
                                         -0x1.b82ce310e5316p-6, 0x1.565bccc4a1c22p-8, -0x1.c02da4871ac37p-11,
                                         0x1.f9a1111254ae2p-14, -0x1.f4a21795a5de6p-17, 0x1.b6e9989e538efp-20,
                                         -0x1.3ee7325d27a9ep-23, 0x1.de0ff0172d31dp-31, 0x1.e4062104f23cfp-28,
                                         -0x1.7c66328f7d07ap-29, 0x1.db77d3303d4b7p-32});
    const Val large = 1 - erfc_positive(abs(a));
    return where(abs(a) < 1, small, flip_sign(large, a)).id;
  }
  // 1 - e^v with v = log(erfc(|a|)), a polynomial whose first coefficient is the sum of two f32; relative
  // error of erf 2^-24.6 on |a| <= 3.93, beyond which erf rounds to 1.
  const Val x = at_most(abs(a), 3.93);
  const Val tail = polynomial_by_pairs(x, x * x,
                                       {0x1.f7ac92p-25, -0x1.45f2bcp-1, -0x1.a51948p-4, 0x1.3c3d78p-6,
                                        -0x1.75f9dcp-13, -0x1.4d322ep-10, 0x1.967ebp-12, -0x1.5cf07cp-15});
  return flip_sign(one_minus_exp(fma(x, -0x1.20dd76p+0, x * tail)), a).id;
}

uint32_t erfc(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val y = erfc_positive(abs(x));
  return where(x < 0, 2 - y, y).id;
}

}  // namespace tenon::math
