// Bessel functions of orders 0 and 1, by polynomials fitted with 40 digits. Each function has one on an
// interval near 0, and beyond it one in 1 / x or 1 / x^2, times the leading factor of the expansion for large
// arguments (DLMF 10.17, 10.40). The first zeros of J are split off; Y is the C library's. Tested by
// tests/unit/ops/special_test.cc.
#include <cmath>
#include <numbers>

#include "src/ops/math/bessel_tables.h"
#include "src/ops/math/nonfinite.h"
#include "src/ops/special/polynomial.h"
#include "src/ops/special/special.h"

namespace tenon::special {
namespace {

// K: on [0, 2], K0(x) and x K1(x) without their logarithmic part (DLMF 10.31.2), in t = x^2 / 2 - 1; beyond,
// sqrt(x) e^x K(x) in t = 4 / x - 1.
constexpr double kK0Small[] = {-0x1.36e85d283cd69p-2, 0x1.5cab546883284p-2,  0x1.25ffa680678ffp-4,
                               0x1.4b2ddc22e96bap-8,  0x1.7f5efc9e653bap-13, 0x1.1017e4b1b1c33p-18,
                               0x1.05b53915c8781p-24, 0x1.6c1aa01600441p-31, 0x1.7fa87055a9a0ep-38,
                               0x1.3cee1e6b887dcp-45, 0x1.a593b9ae0e9dcp-53};
constexpr double kK0Large[] = {
    0x1.37f5dd35f91a9p0,   -0x1.fd1328181db4ep-6,  0x1.8d86f6465d82dp-9,   -0x1.f7130688e7fffp-12,
    0x1.a19652e8ba2ap-14,  -0x1.9efce52ef0542p-16, 0x1.d5e9a40ef8c0cp-18,  -0x1.26183a360da9dp-19,
    0x1.8ec8b910d7a26p-21, -0x1.20c0d9abc9bc4p-22, 0x1.b9dd8b3fe9158p-24,  -0x1.626d6d7295b2fp-25,
    0x1.297d9138449a8p-26, -0x1.0310f00b892c8p-27, 0x1.b3c49fcb71cf6p-29,  -0x1.7b80d2764eddap-30,
    0x1.22a658ea82b56p-30, -0x1.5a9423f34d6dfp-31, -0x1.0ac0f66b26602p-32, 0x1.08f8d38ae3de9p-32,
    0x1.aaf181eb119d9p-32, -0x1.321a41f3ba146p-32, -0x1.5a5e18923045bp-33, 0x1.ef5bf227bfb29p-34,
    0x1.871a5cf6ebbb5p-35, -0x1.ff8ab6a08c2e2p-36};
constexpr double kK1Small[] = {0x1.c52a4ac3be112p-1,   -0x1.5436f9149884fp-2,  -0x1.f3619d57ef062p-3,
                               -0x1.c85d2154bc9a7p-6,  -0x1.6a96e3d81fcb1p-10, -0x1.46794073464edp-15,
                               -0x1.7c2a5c89c0bc2p-21, -0x1.36576f068dca9p-27, -0x1.77460e83e7be4p-34,
                               -0x1.5dd517a0399ep-41,  -0x1.032283d3cda56p-48};
constexpr double kK1Large[] = {
    0x1.5cf785b4a0203p0,    0x1.a7520dfb3f9a2p-4,  -0x1.6cd23ac7d40a8p-8,  0x1.81bb397936ea3p-11,
    -0x1.24bdedb3d64f4p-13, 0x1.1383aa1fb67c1p-15, -0x1.2cb02c331192cp-17, 0x1.6e6b6f81f9577p-19,
    -0x1.e6cb0f021eee3p-21, 0x1.5ad11e3b1872ep-22, -0x1.05e33cc04d491p-23, 0x1.9f8e0e8b8bb88p-25,
    -0x1.597a11fe7d804p-26, 0x1.2a611e40985c5p-27, -0x1.f42d402f4909cp-29, 0x1.b22c79d04c894p-30,
    -0x1.44620033d414ep-30, 0x1.7f332a83f2ec9p-31, 0x1.19889957543efp-32,  -0x1.1ad2bbd2aa82dp-32,
    -0x1.cfe414dd0b8a8p-32, 0x1.4b91bf1e20ab6p-32, 0x1.76c76be709d44p-33,  -0x1.0b88c34261a06p-33,
    -0x1.a8c5d42a4b314p-35, 0x1.151fbdb6907c6p-35};
// J: on [0, 5], J0(x) and J1(x) / x divided by their zeros there, in t = 2 x^2 / 25 - 1; beyond, the factors
// of cosine and sine in t = 50 / x^2 - 1 (DLMF 10.17.3).
constexpr double kJ0Small[] = {0x1.a1c5e862f307cp-9,   -0x1.f799f81a24df2p-10, 0x1.ff5f552d941d9p-12,
                               -0x1.2ab4ba4dd3ff3p-14, 0x1.cc073a3fdf466p-18,  -0x1.f9558f6abe2ap-22,
                               0x1.a13bed4381091p-26,  -0x1.0cdec1eb12685p-30, 0x1.1648bb1be27d6p-35,
                               -0x1.d91d10eef16a3p-41, 0x1.50aa4a71eeec7p-46,  -0x1.96589e0d107bdp-52};
constexpr double kJ0Cosine[] = {0x1.ff4d0e58750e7p-1,   -0x1.5bfe8e449913ap-10, 0x1.24e857e028459p-15,
                                -0x1.4a2bb23e4f74ep-19, 0x1.3f88ef02513e3p-22,  -0x1.b4ebab4f9b9dp-25,
                                0x1.7bf9328f730f3p-27,  -0x1.8a9ac64b5e9a9p-29, 0x1.d5b84301ad9b1p-31,
                                -0x1.36c8377370d13p-32, 0x1.c03a2f46ec8fp-34,   -0x1.6fcb528569bd4p-35,
                                0x1.433c4930e8f91p-36,  -0x1.07e274d4b2ae6p-38, 0x1.edd8c4c272426p-43,
                                -0x1.8bc9cb153288ap-38, 0x1.1ef5f9bc59658p-38,  0x1.41841f4d77ebap-39,
                                -0x1.004bf212a5b48p-39, -0x1.0bd6fac46b9dbp-40, 0x1.6e83f9359a1d2p-41};
constexpr double kJ0Sine[] = {
    -0x1.fa53af1a412d6p-4,  0x1.5883682266e86p-10,  -0x1.09dd7055e93d4p-14, 0x1.a2b325e9d4fd8p-18,
    -0x1.f9305710193a3p-21, 0x1.953c8ad4010e6p-23,  -0x1.8e8e3b14876fp-25,  0x1.c8e12693dba07p-27,
    -0x1.271b53b187269p-28, 0x1.a369c35a589c8p-30,  -0x1.4246b763bfbf1p-31, 0x1.0c64022c6d031p-32,
    -0x1.dca51a76abdd6p-34, 0x1.56c2ff32f32b2p-35,  -0x1.c83213608eb71p-37, 0x1.fe6cb0d006bf3p-36,
    -0x1.a274dc99eb7f1p-36, -0x1.6a9ce58effc9ep-36, 0x1.6b69737a75307p-36,  0x1.714c84f7cf0fap-36,
    -0x1.415eccc6d4aeep-36, -0x1.57e80a9e61a09p-37, 0x1.20cf5a5925d9ap-37,  0x1.5a1688f513e7cp-39,
    -0x1.0c8270da8bc6bp-39};
constexpr double kJ1Small[] = {-0x1.041c9423ec767p-6,  0x1.acf566aaededbp-7,   -0x1.15e32ff822fa4p-8,
                               0x1.8bf87b5439004p-11,  -0x1.686a2a3c3f229p-14, 0x1.c95360babdc49p-18,
                               -0x1.ac92400b19962p-22, 0x1.35278ce236c83p-26,  -0x1.623701dae085ap-31,
                               0x1.4a45b9d078f76p-36,  -0x1.ff29dde95d7ap-42,  0x1.4df092a4a2f3ep-47,
                               -0x1.74adbafc67582p-53};
constexpr double kJ1Cosine[] = {0x1.00961eaac1aa9p0,    0x1.25cb0665de39ep-9,   -0x1.800dd41108097p-15,
                                0x1.8fc8a45b70d58p-19,  -0x1.743c706653eaep-22, 0x1.f17ff421d5534p-25,
                                -0x1.aa2adcb0f02bdp-27, 0x1.b5d262005f525p-29,  -0x1.02774e80b2f9cp-30,
                                0x1.53de2c668da9cp-32,  -0x1.e7b62659258d1p-34, 0x1.8de9485f2e055p-35,
                                -0x1.5bfef70fafffbp-36, 0x1.21651016148c4p-38,  -0x1.514b01ba97b74p-42,
                                0x1.a2f275ea05cdbp-38,  -0x1.2ee0c2fd59b86p-38, -0x1.524745cdd70c7p-39,
                                0x1.0d7deae41a4b6p-39,  0x1.1ac962a2ad0d6p-40,  -0x1.825f0f2251cap-41};
constexpr double kJ1Sine[] = {
    0x1.7e0025755b90ep-2,   -0x1.e8dbf08d129eep-10, 0x1.4b4523f703f58p-14, -0x1.ee9665e745b7cp-18,
    0x1.21e1287c46899p-20,  -0x1.c8b32072b089dp-23, 0x1.bb993a65ccdc4p-25, -0x1.f7df57065cd7ap-27,
    0x1.4321adb059fb9p-28,  -0x1.c8bb7c4323177p-30, 0x1.5f315e99b7f35p-31, -0x1.21b3093a5fa97p-32,
    0x1.cb648f5e640d5p-34,  -0x1.71ddbc719ffedp-35, 0x1.785943f19da2p-35,  -0x1.0d579ed0d415ep-35,
    -0x1.66b50097c1a08p-36, 0x1.7aece77626698p-36,  0x1.c73c23c794d16p-36, -0x1.8317ea488b0cdp-36,
    -0x1.b2a0f7150a5d7p-37, 0x1.6845363a27d2p-37,   0x1.de90e003c9428p-39, -0x1.6af16aa64cb1fp-39};

// A zero as the sum of two doubles.
struct Zero {
  double high, low;
};
constexpr Zero kJ0Zeros[] = {{0x1.33d152e971b40p+1, -0x1.0f539d7da258ep-53},
                             {0x1.6148f5b2c2e45p+2, 0x1.75054cd60a517p-54}};
constexpr Zero kJ1Zero{0x1.ea75575af6f09p+1, -0x1.60155a9d1b256p-53};
// x^2 - z^2.
double from_zero(double x, Zero z) { return (x - z.high - z.low) * (x + z.high); }

// e^-x I(x) for x >= 0.
double scaled_i0(double x) {
  return x <= 8 ? polynomial(x / 4 - 1, bessel::kI0Small)
                : polynomial(16 / x - 1, bessel::kI0Large) / std::sqrt(x);
}
double scaled_i1(double x) {
  return x <= 8 ? x * polynomial(x / 4 - 1, bessel::kI1Small)
                : polynomial(16 / x - 1, bessel::kI1Large) / std::sqrt(x);
}

// scaled * e^x, where e^x alone may overflow.
double unscaled(double scaled, double x) {
  if (x < 700) return scaled * std::exp(x);
  const double half = std::exp(x / 2);
  return scaled * half * half;
}

// K for x in (0, 2].
double small_k0(double x) {
  return polynomial(x * x / 2 - 1, kK0Small) - std::log(x / 2) * unscaled(scaled_i0(x), x);
}
double small_k1(double x) {
  return polynomial(x * x / 2 - 1, kK1Small) / x + std::log(x / 2) * unscaled(scaled_i1(x), x);
}
// K(x), or e^x K(x) if `scaled`. small: K on (0, 2].
template <int n>
double second_kind(double x, bool scaled, double (*small)(double), const double (&large)[n]) {
  if (!(x > 0)) return x == 0 ? kInf : kNaN;
  if (x <= 2) return scaled ? small(x) * std::exp(x) : small(x);
  const double y = x == kInf ? 0 : polynomial(4 / x - 1, large) / std::sqrt(x);
  return scaled ? y : y * std::exp(-x);
}

// J beyond 5. cosine and sine: those of x - pi / 4 or x - 3 pi / 4, times sqrt(2).
template <int n, int m>
double first_kind(double x, double cosine, double sine, const double (&of_cosine)[n],
                  const double (&of_sine)[m]) {
  if (x == kInf) return kNaN;
  const double t = 50 / (x * x) - 1;
  return (polynomial(t, of_cosine) * cosine - polynomial(t, of_sine) * sine / x) /
         std::sqrt(std::numbers::pi * x);
}

// Y of the C library, called only inside its domain.
double library_y(double (*y)(double), double x) { return x > 0 && x < kInf ? y(x) : x == 0 ? -kInf : kNaN; }

}  // namespace

double i0e(double x) { return scaled_i0(std::fabs(x)); }
double i0(double x) { return std::isinf(x) ? kNaN : unscaled(scaled_i0(std::fabs(x)), std::fabs(x)); }
double i1e(double x) { return x < 0 ? -scaled_i1(-x) : scaled_i1(std::fabs(x)); }  // 0 for -0
double i1(double x) {
  if (std::isinf(x)) return kNaN;
  return x < 0 ? -unscaled(scaled_i1(-x), -x) : unscaled(scaled_i1(std::fabs(x)), std::fabs(x));
}

double k0e(double x) { return second_kind(x, true, small_k0, kK0Large); }
double k0(double x) { return second_kind(x, false, small_k0, kK0Large); }
double k1e(double x) { return second_kind(x, true, small_k1, kK1Large); }
double k1(double x) { return second_kind(x, false, small_k1, kK1Large); }

double j0(double x) {
  x = std::fabs(x);
  if (x <= 5)
    return from_zero(x, kJ0Zeros[0]) * from_zero(x, kJ0Zeros[1]) *
           polynomial(x * x * (2.0 / 25) - 1, kJ0Small);
  const double s = std::sin(x), c = std::cos(x);
  return first_kind(x, c + s, s - c, kJ0Cosine, kJ0Sine);
}

double j1(double x) {
  const double a = std::fabs(x);
  if (a <= 5) return x * from_zero(a, kJ1Zero) * polynomial(a * a * (2.0 / 25) - 1, kJ1Small);
  const double s = std::sin(a), c = std::cos(a);
  const double y = first_kind(a, s - c, -(s + c), kJ1Cosine, kJ1Sine);
  return x < 0 ? -y : y;
}

double y0(double x) { return library_y(::y0, x); }
double y1(double x) { return library_y(::y1, x); }

}  // namespace tenon::special
