// The Airy function Ai, by polynomials fitted with 40 digits. On [-3, 1]: Ai itself. With z = 2 / 3
// |x|^(3/2), to the right: the factor of its decay, in 1 / z (DLMF 9.7.5); to the left: the factors of sine
// and cosine, in 1 / z^2 (DLMF 9.7.9). Tested by tests/unit/ops/special_test.cc.
#include <cmath>
#include <numbers>

#include "src/ops/math/nonfinite.h"
#include "src/ops/special/polynomial.h"
#include "src/ops/special/special.h"

namespace tenon::special {
namespace {

constexpr double kAiRight[] = {
    0x1.ebdc6b32653ffp-1,  -0x1.fc78a048bdaf5p-6,  0x1.75a21f1fd81bdp-8,   -0x1.a504073059002p-10,
    0x1.2745cf2e3712ep-11, -0x1.db651ff7df063p-13, 0x1.a57febadfe06ap-14,  -0x1.91b9902d1bc9bp-15,
    0x1.952c5e575591p-16,  -0x1.abc9d180ab104p-17, 0x1.d51f30b3a1d69p-18,  -0x1.0a2d11ff7a7e3p-18,
    0x1.377b87dbee57cp-19, -0x1.5faf67be04038p-20, 0x1.7b24c694a82f1p-21,  -0x1.0481e5de96659p-20,
    0x1.363fb70f8a3b6p-20, 0x1.19b9d254b0884p-19,  -0x1.f993b24d0074bp-19, -0x1.2fbfb51346bacp-17,
    0x1.dad7c226727afp-17, 0x1.bee81ade83776p-16,  -0x1.4a03f6b5cb80cp-15, -0x1.01b9b2fb75235p-14,
    0x1.67755b4508dcap-14, 0x1.cc0e9619fc73ap-14,  -0x1.3120b6191f96fp-13, -0x1.3da72aded8d8p-13,
    0x1.929ad0d81a9cbp-13, 0x1.4fd559165ed2dp-13,  -0x1.9866a23055a0dp-13, -0x1.0adb06fda4369p-13,
    0x1.386fc7ca14a0dp-13, 0x1.348b8f8a1069dp-14,  -0x1.5cd09cd081e39p-14, -0x1.ea70dfa7127c1p-16,
    0x1.0c5432c8c24eap-15, 0x1.dfbd77f923ac7p-18,  -0x1.fd1a48cc589c1p-18, -0x1.b49126f405862p-21,
    0x1.c1e62ff5246ccp-21};
constexpr double kAiMiddle[] = {
    0x1.1235093d83da5p-1,   -0x1.4cf103bcc6625p-6,  -0x1.1235093d83da5p0,   0x1.748bbc65f3f01p-1,
    0x1.5fbcac2a27893p-2,   -0x1.25dff9df33e6cp-1,  0x1.2f95f0618249fp-3,   0x1.ebe510ca31822p-4,
    -0x1.7b39f6c3e2d51p-4,  0x1.4116876eaf45dp-7,   0x1.e4a0beb3f34a8p-7,   -0x1.d0a22d9784067p-8,
    0x1.318c3d877b845p-13,  0x1.ecf3ec3fbb149p-11,  -0x1.4a22031fe8d82p-12, -0x1.9eb08de0a5f35p-17,
    0x1.32ece9e308a2ep-15,  -0x1.309f9b890bf68p-17, -0x1.ae30b4728997dp-21, 0x1.0256028230d7fp-20,
    -0x1.8890440f7a998p-23, -0x1.a8926788248f3p-26, 0x1.3b0ef66366e29p-26,  -0x1.5c44039edb50bp-29,
    -0x1.294fcb8f3e4d1p-31, 0x1.cb262de93f886p-33,  -0x1.a4461a526fedp-37};
constexpr double kAiLeftSine[] = {
    0x1.ff404d99c373fp-1,   -0x1.6c3fa9e32d729p-10, 0x1.0c161780ab0d6p-14, -0x1.e9ef6202e31ccp-18,
    0x1.665fa6de36c1dp-20,  -0x1.5e7da9a7611ddp-22, 0x1.a1c37c1b122f1p-24, -0x1.1f7cafe7b572bp-25,
    0x1.b95b9e9c731bdp-27,  -0x1.71236bb5f657ap-28, 0x1.4f48e0b6ebbb4p-29, -0x1.4753e20d0fb06p-30,
    0x1.f0ac9a0434362p-32,  -0x1.001a66a7be384p-33, 0x1.366d9ce867a99p-31, -0x1.5de036e3e2886p-31,
    -0x1.d8450531b9febp-31, 0x1.307b906a6fe32p-30,  0x1.8b5e8e806409ap-30, -0x1.c9e6332c682e8p-30,
    -0x1.9bbc301dc338ap-30, 0x1.c4100811e99d2p-30,  0x1.1e8ed0d8779cfp-30, -0x1.28de695442da1p-30,
    -0x1.d20c8c6695d1dp-32, 0x1.cbc1f1e47d308p-32,  0x1.5f9f5a2f66291p-34, -0x1.4900230b342bcp-34};
constexpr double kAiLeftCosine[] = {
    0x1.169c83f74dc39p-4,   -0x1.53844904631ep-10,  0x1.c079c47872c9ep-14, -0x1.175532de5bf94p-16,
    0x1.f3824b41e9e0ap-19,  -0x1.1a3cbd9a0f9f5p-20, 0x1.77f2179d6ac45p-22, -0x1.1ae5a0245b4d4p-23,
    0x1.d3ef213cf7f31p-25,  -0x1.a171fb604bf65p-26, 0x1.8c697815dffaap-27, -0x1.8762a39acfe4cp-28,
    0x1.8bf2d8ce8d172p-29,  -0x1.175a2f2bfee14p-29, 0x1.c5caaf885b5bp-30,  0x1.8375c302fb27p-30,
    -0x1.8f3b07dead33ep-29, -0x1.d9af7ae87b397p-28, 0x1.656fc386466a6p-27, 0x1.2502e5bdefcc8p-26,
    -0x1.a47e0a787bf87p-26, -0x1.173766970a6eep-25, 0x1.780ba8734b256p-25, 0x1.877b16ccea6ffp-25,
    -0x1.f3e850905ce7ap-25, -0x1.91db8f3c1fef3p-25, 0x1.e8d5bc7089485p-25, 0x1.251202f47df06p-25,
    -0x1.5536e16178b2p-25,  -0x1.205604e735ec5p-26, 0x1.4265dcff0fe97p-26, 0x1.579baedef5796p-28,
    -0x1.7205ac54b4c16p-28, -0x1.78e8525c7eb2ep-31, 0x1.8765a4962328p-31};

}  // namespace

double airy_ai(double x) {
  if (!(std::fabs(x) < kInf)) return kNaN;
  if (x > 103.892) return 0;  // as in PyTorch
  if (x >= -3 && x <= 1) return polynomial((x + 1) / 2, kAiMiddle);
  const double a = std::fabs(x), root = std::sqrt(a), z = 2 * a * root / 3;
  const double scale = 1 / std::sqrt(std::numbers::pi * root);
  if (x > 0) return scale / 2 * std::exp(-z) * polynomial(4 / (3 * z) - 1, kAiRight);
  // Sine and cosine of z + pi / 4, times sqrt(2).
  const double s = std::sin(z) + std::cos(z), c = std::cos(z) - std::sin(z), t = 24 / (z * z) - 1;
  return scale / std::numbers::sqrt2 *
         (s * polynomial(t, kAiLeftSine) - c * polynomial(t, kAiLeftCosine) / z);
}

}  // namespace tenon::special
