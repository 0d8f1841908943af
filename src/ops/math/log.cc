// Logarithms and the inverse hyperbolic functions. x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)]; log(1
// + f) is a polynomial. Tested by tests/unit/ops/math_test.cc.
#include "src/ops/math/value.h"

namespace tenon::math {
namespace {

constexpr int64_t kSqrtHalfF32 = 0x3f3504f3, kSqrtHalfF64 = 0x3fe6a09e667f3bcd;  // the bits of sqrt(1/2)

Val sqrt_half(Val like) { return like.of_int(like.wide() ? kSqrtHalfF64 : kSqrtHalfF32); }

}  // namespace

SplitExponent split_exponent(Val x) {
  const Val tiny = x < smallest_normal(x);
  const double lift = pick(x, 23, 52);
  const Val all = bits(where(tiny, x * pick(x, 0x1p23, 0x1p52), x));
  const Val e = (all - sqrt_half(all)) >> mantissa(x);
  const Val exponent = cast(e, x.type());
  return {where(tiny, exponent - lift, exponent), from_bits(all - (e << mantissa(x))) - 1};
}

namespace {

// log(1 + f), relative error f32 2^-24, f64 2^-55.
Val log_near_one(Val f) {
  const Val tail =
      polynomial(f,
                 {-0x1.fffffap-2, 0x1.5556f6p-2, -0x1.0004cap-2, 0x1.98d21ep-3, -0x1.535226p-3, 0x1.318032p-3,
                  -0x1.255d76p-3, 0x1.66d524p-4},
                 {-0x1.0000000000003p-1, 0x1.5555555555466p-2, -0x1.fffffffffde7bp-3, 0x1.99999999bf601p-3,
                  -0x1.55555556f5c1dp-3, 0x1.24924914d71f7p-3, -0x1.fffffeda05129p-4, 0x1.c71c77b2fd968p-4,
                  -0x1.9999d1daaf5b9p-4, 0x1.745c90d712887p-4, -0x1.554f12449293fp-4, 0x1.3b17429c206dp-4,
                  -0x1.24fb1f0b667bcp-4, 0x1.115d5ecdb8c1fp-4, -0x1.f8692b93cf8a5p-5, 0x1.d4080e364e864p-5,
                  -0x1.e552163fc3c72p-5, 0x1.0b641bb5549c1p-4, -0x1.b5142f81bf1c4p-5, 0x1.4c8be3211dd68p-6});
  return fma(f * f, tail, f);
}

// y + e ln 2.
Val add_exponent(Val e, Val y) {
  return fma(e, pick(e, 0x1.62e43p-1, 0x1.62e42fefa39efp-1),
             fma(e, pick(e, -0x1.05c61p-29, 0x1.abc9e3b39803fp-56), y));
}

// `result` if x > pole; -inf at the pole, NaN below, inf at inf.
Val special(Val x, double pole, Val result) {
  const Val outside = where(x == pole, -kInf, x.of(kNaN));
  return where(x > pole, where(x < kInf, result, x), outside);
}

// asinh and acosh are log1p(a) + ln 2 for large a, where the sum inside would overflow.
Val log1p_doubled(Val a, Val argument) {
  const Val large = a > pick(a, 0x1p28, 0x1p56);
  const Val y = log1p(where(large, a, argument));
  return where(large, y + 0x1.62e42fefa39efp-1, y);
}

}  // namespace

Val log1p(Val x) {
  // The exponent comes from 1 + x, and f from x: 1 + f = (1 + x) 2^-e. Scaled by 4, because 2^-e may be
  // denormal.
  const Val u = bits(x + 1);
  const Val e = (u - sqrt_half(u)) >> mantissa(x);
  const Val four = x.of(4);
  const Val scale = from_bits(bits(four) - (e << mantissa(x)));
  const Val f = fma(x, scale, scale - 4) * 0.25;
  const Val result = special(x, -1, add_exponent(cast(e, x.type()), log_near_one(f)));
  return where(abs(x) < pick(x, 0x1p-30, 0x1p-60), x, result);  // keeps -0 and denormals
}

uint32_t log1p(MathBuilder& b, Operands x) { return log1p(Val(b, x[0])).id; }

uint32_t log(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const auto [e, f] = split_exponent(x);
  return special(x, 0, add_exponent(e, log_near_one(f))).id;
}

uint32_t log2(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const auto [e, f] = split_exponent(x);
  const Val y = log_near_one(f);
  // y / ln 2 + e.
  const Val low = fma(y, pick(x, 0x1.4ae0cp-26, 0x1.777d0ffda0d24p-56), e);
  return special(x, 0, fma(y, pick(x, 0x1.715476p+0, 0x1.71547652b82fep+0), low)).id;
}

uint32_t log10(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const auto [e, f] = split_exponent(x);
  const Val y = log_near_one(f);
  // y / ln 10 + e log10 2.
  Val sum = y * pick(x, -0x1.5b235ep-27, 0x1.95355baaafad3p-57);
  sum = fma(e, pick(x, -0x1.ec10cp-27, -0x1.9dc1da994fd21p-59), sum);
  sum = fma(y, pick(x, 0x1.bcb7b2p-2, 0x1.bcb7b1526e50ep-2), sum);
  return special(x, 0, fma(e, pick(x, 0x1.344136p-2, 0x1.34413509f79ffp-2), sum)).id;
}

// log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))).
uint32_t asinh(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val a = abs(x);
  const Val s = a * a;
  return flip_sign(log1p_doubled(a, a + s / (sqrt(s + 1) + 1)), x).id;
}

// With t = x - 1: log1p(t + sqrt(2 t + t^2)).
uint32_t acosh(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val t = x - 1;
  const Val y = log1p_doubled(x, t + sqrt(fma(t, t, 2 * t)));
  return where(x < 1, kNaN, y).id;
}

uint32_t atanh(MathBuilder& b, Operands operands) {
  const Val x(b, operands[0]);
  const Val a = abs(x);
  return flip_sign(0.5 * log1p(2 * a / (1 - a)), x).id;
}

}  // namespace tenon::math
