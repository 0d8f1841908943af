// Math: the functions of the math column of map.def, one per row, in terms of simpler rows. They are free of
// branches, so that they run in vector lanes, and right for inf, NaN, denormal operands and denormal results,
// in f32 and f64. The polynomials are minimax fits made by tools/minimax.py; each states its interval and its
// relative error before rounding. An fma is used only where it is written, so every emitter and the
// interpreter agree bit for bit. Tested by tests/unit/ops/math_test.cc.
#pragma once

#include "src/ir/op.h"

namespace tenon::math {

using Operands = std::span<const uint32_t>;

// src/ops/math/exp.cc
uint32_t exp(MathBuilder& b, Operands x);
uint32_t exp2(MathBuilder& b, Operands x);
uint32_t expm1(MathBuilder& b, Operands x);
uint32_t sigmoid(MathBuilder& b, Operands x);
uint32_t tanh(MathBuilder& b, Operands x);
uint32_t sinh(MathBuilder& b, Operands x);
uint32_t cosh(MathBuilder& b, Operands x);
// src/ops/math/erf.cc
uint32_t erf(MathBuilder& b, Operands x);
uint32_t erfc(MathBuilder& b, Operands x);
uint32_t erfinv(MathBuilder& b, Operands x);
uint32_t erfcx(MathBuilder& b, Operands x);
uint32_t ndtri(MathBuilder& b, Operands x);
// src/ops/math/gamma.cc
uint32_t lgamma(MathBuilder& b, Operands x);
// src/ops/math/bessel.cc
uint32_t i0(MathBuilder& b, Operands x);
uint32_t i0e(MathBuilder& b, Operands x);
uint32_t i1(MathBuilder& b, Operands x);
uint32_t i1e(MathBuilder& b, Operands x);
// src/ops/math/log.cc
uint32_t log(MathBuilder& b, Operands x);
uint32_t log2(MathBuilder& b, Operands x);
uint32_t log10(MathBuilder& b, Operands x);
uint32_t log1p(MathBuilder& b, Operands x);
uint32_t asinh(MathBuilder& b, Operands x);
uint32_t acosh(MathBuilder& b, Operands x);
uint32_t atanh(MathBuilder& b, Operands x);
// src/ops/math/trig.cc
uint32_t sin(MathBuilder& b, Operands x);
uint32_t cos(MathBuilder& b, Operands x);
uint32_t tan(MathBuilder& b, Operands x);
uint32_t asin(MathBuilder& b, Operands x);
uint32_t acos(MathBuilder& b, Operands x);
uint32_t atan(MathBuilder& b, Operands x);
uint32_t atan2(MathBuilder& b, Operands x);
// src/ops/math/arith.cc; pow serves integers too
uint32_t pow(MathBuilder& b, Operands x);
uint32_t rsqrt(MathBuilder& b, Operands x);
uint32_t floor_div(MathBuilder& b, Operands x);
uint32_t remainder(MathBuilder& b, Operands x);

}  // namespace tenon::math
