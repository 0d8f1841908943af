// The rows of special.def: known values to the last places, computed with 60 digits of mpmath; PyTorch's values at poles, at
// infinities and outside the domain; and kernels that call the rows, on every instruction set, compared with the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "jit/llvm/compiler.h"
#include "jit/objects/host_call.h"
#include "src/ops/rows/names.h"
#include "tests/support/kernel_run.h"

namespace tenon::jit {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Known {
  OpId id;
  double a, b, value;
  double ulps;
};
constexpr Known kKnown[] = {
    {ops::lgamma, 0x1.4f8b588e368f1p-17, 0, 0x1.7069d68f4ec83p3, 4},
    {ops::lgamma, 0x1.3333333333333p-2, 0, 0x1.188637a6c4196p0, 4},
    {ops::lgamma, 0x1.8p0, 0, -0x1.eeb95b094c191p-4, 4},
    {ops::lgamma, 0x1.dp2, 0, 0x1.c35701a50ff06p2, 4},
    {ops::lgamma, 0x1.92p6, 0, 0x1.696f7f9481308p8, 4},
    {ops::lgamma, -0x1p-1, 0, 0x1.43f89a3f0edd6p0, 4},
    {ops::lgamma, -0x1.a666666666666p1, 0, -0x1.a611f6cda29c6p-1, 4},
    {ops::lgamma, 0x1.2a05f2p33, 0, 0x1.9a43710f467c1p37, 4},
    {ops::digamma, 0x1.4f8b588e368f1p-17, 0, -0x1.86a093c353ea9p16, 8},
    {ops::digamma, 0x1.3333333333333p-2, 0, -0x1.c052b6b5e6118p1, 8},
    {ops::digamma, 0x1.4p1, 0, 0x1.680425af12b5ep-1, 8},
    {ops::digamma, 0x1.38p3, 0, 0x1.1cd063a584615p1, 8},
    {ops::digamma, 0x1.86ap16, 0, 0x1.7069d82dcebc1p3, 8},
    {ops::digamma, -0x1p-2, 0, 0x1.750282bca7d92p1, 8},
    {ops::digamma, -0x1.a666666666666p1, 0, 0x1.cf67be009a0fcp1, 8},
    {ops::erfinv, 0x1.5798ee2308c3ap-27, 0, 0x1.308158419499ap-27, 6},
    {ops::erfinv, 0x1p-2, 0, 0x1.cd70681d5ff7p-3, 6},
    {ops::erfinv, -0x1.3333333333333p-1, 0, -0x1.30b30e164d845p-1, 6},
    {ops::erfinv, 0x1.ae147ae147ae1p-1, 0, 0x1.fcb0b3ae5330dp-1, 6},
    {ops::erfinv, 0x1.ccccccccccccdp-1, 0, 0x1.29c0146770651p0, 6},
    {ops::erfinv, -0x1.ff7ced916872bp-1, 0, -0x1.29d311405cdb4p1, 6},
    {ops::erfinv, 0x1.fffffffffep-1, 0, 0x1.4347bf36fbae8p2, 6},
    {ops::ndtri, 0x1p-60, 0, -0x1.18bf0c0948e3fp3, 6},
    {ops::ndtri, 0x1p-20, 0, -0x1.30d5024a3fa4dp2, 6},
    {ops::ndtri, 0x1.999999999999ap-5, 0, -0x1.a515209676abdp0, 6},
    {ops::ndtri, 0x1.3333333333333p-2, 0, -0x1.0c7e39582c5fbp-1, 6},
    {ops::ndtri, 0x1.2p-1, 0, 0x1.422c1aadb2493p-3, 6},
    {ops::ndtri, 0x1.e666666666666p-1, 0, 0x1.a515209676abbp0, 6},
    {ops::ndtri, 0x1.fffffff8p-1, 0, 0x1.80993fb2838dfp2, 6},
    {ops::erfcx, -0x1.4p2, 0, 0x1.0c3d39209549dp37, 4},
    {ops::erfcx, -0x1.8p-1, 0, 0x1.8067edd7c6e39p1, 4},
    {ops::erfcx, 0x1.4f8b588e368f1p-17, 0, 0x1.fffe8561d39bp-1, 4},
    {ops::erfcx, 0x1p-1, 0, 0x1.3b3bc3c98b0f3p-1, 4},
    {ops::erfcx, 0x1.8p1, 0, 0x1.6e9827d229d2dp-3, 4},
    {ops::erfcx, 0x1.88p4, 0, 0x1.78faca60fd196p-6, 4},
    {ops::erfcx, 0x1.98p4, 0, 0x1.6a382043f7ebdp-6, 4},
    {ops::erfcx, 0x1.86ap16, 0, 0x1.7a9f084b432a7p-18, 4},
    {ops::i0, 0x1.4f8b588e368f1p-17, 0, 0x1.000000001b7cep0, 8},
    {ops::i0, 0x1p-1, 0, 0x1.104072392c8p0, 8},
    {ops::i0, -0x1.8p1, 0, 0x1.385ee7ddb65f1p2, 8},
    {ops::i0, 0x1.f99999999999ap2, 0, 0x1.8568022e61c7bp8, 8},
    {ops::i0, 0x1.0333333333333p3, 0, 0x1.d58027c2e8214p8, 8},
    {ops::i0, 0x1.9p5, 0, 0x1.fcb78c9d0a578p67, 8},
    {ops::i0, 0x1.608p9, 0, 0x1.07e2dd0d913a3p1011, 8},
    {ops::i0e, 0x1.4f8b588e368f1p-17, 0, 0x1.fffeb0754c5edp-1, 8},
    {ops::i0e, 0x1p-1, 0, 0x1.4a42101eb0f47p-1, 8},
    {ops::i0e, -0x1.8p1, 0, 0x1.f1aa2b7054e7bp-3, 8},
    {ops::i0e, 0x1.f99999999999ap2, 0, 0x1.27ab63281c22cp-3, 8},
    {ops::i0e, 0x1.0333333333333p3, 0, 0x1.23dd3b485e3aep-3, 8},
    {ops::i0e, 0x1.9p5, 0, 0x1.cf5a5415199fap-5, 8},
    {ops::i0e, 0x1.86ap16, 0, 0x1.4ab6626c55b42p-10, 8},
    {ops::i1, 0x1.4f8b588e368f1p-17, 0, 0x1.4f8b588e4892cp-18, 12},
    {ops::i1, 0x1p-1, 0, 0x1.081571ddea056p-2, 12},
    {ops::i1, -0x1.8p1, 0, -0x1.fa0809085cc04p1, 12},
    {ops::i1, 0x1.f99999999999ap2, 0, 0x1.6bda9c145b938p8, 12},
    {ops::i1, 0x1.0333333333333p3, 0, 0x1.b77bfbab3326ap8, 12},
    {ops::i1, 0x1.9p5, 0, 0x1.f79a9674e50dfp67, 12},
    {ops::i1, 0x1.608p9, 0, 0x1.07b2ef6ad08bp1011, 12},
    {ops::i1e, 0x1.4f8b588e368f1p-17, 0, 0x1.4f8a7ca791d2ap-18, 8},
    {ops::i1e, 0x1p-1, 0, 0x1.40598cd0be9efp-3, 8},
    {ops::i1e, -0x1.8p1, 0, -0x1.9319e244ba85dp-3, 8},
    {ops::i1e, 0x1.f99999999999ap2, 0, 0x1.14449dab8388fp-3, 8},
    {ops::i1e, 0x1.0333333333333p3, 0, 0x1.1134614cfca2cp-3, 8},
    {ops::i1e, 0x1.9p5, 0, 0x1.cab2177d77b38p-5, 8},
    {ops::i1e, 0x1.86ap16, 0, 0x1.4ab5f60e18646p-10, 8},
    {ops::k0, 0x1.4f8b588e368f1p-17, 0, 0x1.741f98ace08ep3, 8},
    {ops::k0, 0x1p-1, 0, 0x1.d94d74dd716bp-1, 8},
    {ops::k0, 0x1.e666666666666p0, 0, 0x1.07e06699b1991p-3, 8},
    {ops::k0, 0x1.0cccccccccccdp1, 0, 0x1.9ccf69717483bp-4, 8},
    {ops::k0, 0x1.4p3, 0, 0x1.2a4cc9425b782p-16, 8},
    {ops::k0, 0x1.2cp9, 0, 0x1.113ce7f3ba035p-870, 8},
    {ops::k0e, 0x1.4f8b588e368f1p-17, 0, 0x1.74208c8d23cdap3, 8},
    {ops::k0e, 0x1p-1, 0, 0x1.862c085f6cf36p0, 8},
    {ops::k0e, 0x1.e666666666666p0, 0, 0x1.b9100e2422b97p-1, 8},
    {ops::k0e, 0x1.0cccccccccccdp1, 0, 0x1.a5628114575p-1, 8},
    {ops::k0e, 0x1.4p3, 0, 0x1.9107f639e5cb1p-2, 8},
    {ops::k0e, 0x1.86ap16, 0, 0x1.03bd83d946612p-8, 8},
    {ops::k1, 0x1.4f8b588e368f1p-17, 0, 0x1.869ffffc068ecp16, 8},
    {ops::k1, 0x1p-1, 0, 0x1.a80c867629ee1p0, 8},
    {ops::k1, 0x1.e666666666666p0, 0, 0x1.46fbe6fdff4f2p-3, 8},
    {ops::k1, 0x1.0cccccccccccdp1, 0, 0x1.f6c4f0f3cdebbp-4, 8},
    {ops::k1, 0x1.4p3, 0, 0x1.38dfdf41990d2p-16, 8},
    {ops::k1, 0x1.2cp9, 0, 0x1.11772c2d91ca5p-870, 8},
    {ops::k1e, 0x1.4f8b588e368f1p-17, 0, 0x1.86a0fffc5a6f1p16, 8},
    {ops::k1e, 0x1p-1, 0, 0x1.5d91b9e2e9fffp1, 8},
    {ops::k1e, 0x1.e666666666666p0, 0, 0x1.1145c65cfbfa7p0, 8},
    {ops::k1e, 0x1.0cccccccccccdp1, 0, 0x1.009b315513742p0, 8},
    {ops::k1e, 0x1.4p3, 0, 0x1.a49ffdebfef6bp-2, 8},
    {ops::k1e, 0x1.86ap16, 0, 0x1.03bdd8f5d0c1bp-8, 8},
    {ops::j0, 0x1.4f8b588e368f1p-17, 0, 0x1.ffffffffc9064p-1, 16},
    {ops::j0, 0x1p0, 0, 0x1.87c7fdbd7b8fp-1, 16},
    {ops::j0, 0x1.3p1, 0, 0x1.fe78de45b17d2p-7, 16},
    {ops::j0, -0x1.3p2, 0, -0x1.053e64ea6a671p-2, 16},
    {ops::j0, 0x1.5p2, 0, -0x1.7d427de6153dp-4, 16},
    {ops::j0, 0x1.4p3, 0, -0x1.f7ad2b89e1e54p-3, 16},
    {ops::j0, 0x1.9p6, 0, 0x1.4772bb5c1ef71p-6, 16},
    {ops::j1, 0x1.4f8b588e368f1p-17, 0, 0x1.4f8b588e248b6p-18, 16},
    {ops::j1, 0x1p0, 0, 0x1.c29c9ee970c6cp-2, 16},
    {ops::j1, 0x1.ep1, 0, 0x1.1036fef8f05b8p-5, 16},
    {ops::j1, -0x1.3p2, 0, 0x1.2820958a7f424p-2, 16},
    {ops::j1, 0x1.5p2, 0, -0x1.614b582aa567fp-2, 16},
    {ops::j1, 0x1.4p3, 0, 0x1.6420f4e200911p-5, 16},
    {ops::j1, 0x1.9p6, 0, -0x1.3bfcc3bf06394p-4, 16},
    {ops::y0, 0x1.4f8b588e368f1p-17, 0, -0x1.d9cd60ca62f26p2, 16},
    {ops::y0, 0x1p0, 0, 0x1.6980226f358dfp-4, 16},
    {ops::y0, 0x1.4p1, 0, 0x1.fe0628069e15dp-2, 16},
    {ops::y0, 0x1.4p3, 0, 0x1.c80ee65a05c59p-5, 16},
    {ops::y0, 0x1.9p6, 0, -0x1.3c64887b47b65p-4, 16},
    {ops::y1, 0x1.4f8b588e368f1p-17, 0, -0x1.f15bf45d6fcbep15, 16},
    {ops::y1, 0x1p0, 0, -0x1.8ffb207d66b94p-1, 16},
    {ops::y1, 0x1.4p1, 0, 0x1.2ad720f3af3a9p-3, 16},
    {ops::y1, 0x1.4p3, 0, 0x1.fdfbcc7958f3cp-3, 16},
    {ops::y1, 0x1.9p6, 0, -0x1.4dc7ab72edc1fp-6, 16},
    {ops::airy_ai, -0x1.4p4, 0, -0x1.69479d94e9662p-3, 100},
    {ops::airy_ai, -0x1.cp1, 0, -0x1.808bf043b852cp-2, 100},
    {ops::airy_ai, -0x1.4p1, 0, -0x1.cc155ec43247dp-4, 100},
    {ops::airy_ai, 0x0p0, 0, 0x1.6b8c7962715b8p-2, 100},
    {ops::airy_ai, 0x1p-1, 0, 0x1.da822d743844p-3, 100},
    {ops::airy_ai, 0x1.8p0, 0, 0x1.25e2ccf277dc1p-4, 100},
    {ops::airy_ai, 0x1.4p3, 0, 0x1.e5e028a1f8cdap-34, 100},
    {ops::airy_ai, 0x1.9p5, 0, 0x1.a49f4f0c8d0a3p-344, 100},
    {ops::zeta, 0x1.8p0, 0x1p-1, 0x1.31b2cc3836765p2, 8},
    {ops::zeta, 0x1p1, 0x1p0, 0x1.a51a6625307d3p0, 8},
    {ops::zeta, 0x1.8p1, -0x1.8p-1, 0x1.f259165144125p5, 8},
    {ops::zeta, 0x1.8p1, 0x1.48p4, 0x1.4779ba3a085e9p-10, 8},
    {ops::zeta, 0x1.ep4, 0x1.ap1, 0x1.fb80962cd255ep-52, 8},
    {ops::zeta, 0x1.ep5, 0x1.48p4, 0x1.8cfae58c6673fp-262, 8},
    {ops::zeta, 0x1.ep2, 0x1.388p13, 0x1.e7b765f1be83fp-90, 8},
    {ops::polygamma, 0x0p0, 0x1.4p1, 0x1.680425af12b5ep-1, 16},
    {ops::polygamma, 0x1p1, 0x1.8p-1, -0x1.535e57b5b69fp2, 16},
    {ops::polygamma, 0x1.8p1, -0x1.2p1, 0x1.859d1f19949cdp10, 16},
    {ops::polygamma, 0x1p2, 0x1.e8p4, -0x1.f0a49e59112dfp-18, 16},
    {ops::igamma, 0x1p-2, 0x1p-3, 0x1.47c2af70d9e57p-1, 256},
    {ops::igamma, 0x1p1, 0x1p0, 0x1.0e95393a6219p-2, 256},
    {ops::igamma, 0x1.cp1, 0x1.4p3, 0x1.fd25f872b489dp-1, 256},
    {ops::igamma, 0x1.ep4, 0x1.9p4, 0x1.74f2e5dcc60b8p-3, 256},
    {ops::igamma, 0x1.f4p7, 0x1.ep7, 0x1.1212dc232e323p-2, 256},
    {ops::igamma, 0x1.f4p9, 0x1.77p10, 0x1p0, 256},
    {ops::igamma, 0x1.0624dd2f1a9fcp-10, 0x1p-1, 0x1.ffb697480dc2fp-1, 256},
    {ops::igamma, 0x1.2cp7, 0x1.4p5, 0x1.1ef44461bd6f1p-132, 256},
    {ops::igammac, 0x1p-2, 0x1p-3, 0x1.707aa11e4c352p-2, 256},
    {ops::igammac, 0x1p1, 0x1p0, 0x1.78b56362cef38p-1, 256},
    {ops::igammac, 0x1.cp1, 0x1.4p3, 0x1.6d03c6a5bb16fp-8, 256},
    {ops::igammac, 0x1.ep4, 0x1.9p4, 0x1.a2c34688ce7d2p-1, 256},
    {ops::igammac, 0x1.f4p7, 0x1.04p8, 0x1.099d6582e7a28p-2, 256},
    {ops::igammac, 0x1.f4p9, 0x1.77p10, 0x1.3aaa4408cabddp-142, 256},
    {ops::igammac, 0x1.0624dd2f1a9fcp-10, 0x1p-1, 0x1.25a2dfc8f4278p-11, 256},
    {ops::igammac, 0x1.4p4, 0x1.ep5, 0x1.5d334da81a887p-31, 256},
    {ops::chebyshev_t, 0x1p-2, 0x1.4p2, 0x1.e8p-1, 64},
    {ops::chebyshev_t, 0x1.8p0, 0x1.2p3, 0x1.692p11, 64},
    {ops::chebyshev_t, -0x1.cp-2, 0x1.4p4, -0x1.dda383de4a3bep-1, 64},
    {ops::chebyshev_u, 0x1p-2, 0x1.4p2, 0x1.08p0, 64},
    {ops::chebyshev_u, 0x1.8p0, 0x1.2p3, 0x1.a6dp12, 64},
    {ops::chebyshev_u, -0x1.cp-2, 0x1.4p4, -0x1.1badd37c5db62p0, 64},
    {ops::chebyshev_v, 0x1p-2, 0x1.4p2, 0x1.7p-1, 64},
    {ops::chebyshev_v, 0x1.8p0, 0x1.2p3, 0x1.055p12, 64},
    {ops::chebyshev_v, -0x1.cp-2, 0x1.4p4, -0x1.8237202cdf11fp0, 64},
    {ops::chebyshev_w, 0x1p-2, 0x1.4p2, 0x1.58p0, 64},
    {ops::chebyshev_w, 0x1.8p0, 0x1.2p3, 0x1.2428p13, 64},
    {ops::chebyshev_w, -0x1.cp-2, 0x1.4p4, -0x1.6a490d97b8b49p-1, 64},
    {ops::hermite_h, 0x1p-2, 0x1.4p2, 0x1.b88p4, 16},
    {ops::hermite_h, 0x1.8p0, 0x1.2p3, 0x1.626p11, 16},
    {ops::hermite_he, 0x1p-2, 0x1.4p2, 0x1.cc2p1, 16},
    {ops::hermite_he, 0x1.8p0, 0x1.2p3, -0x1.0e9b4p9, 16},
    {ops::laguerre_l, 0x1p-2, 0x1.4p2, 0x1.3144444444444p-5, 32},
    {ops::laguerre_l, 0x1.8p0, 0x1.2p3, 0x1.226399999999ap-1, 32},
    {ops::legendre_p, 0x1p-2, 0x1.4p2, 0x1.5bep-2, 32},
    {ops::legendre_p, 0x1.8p0, 0x1.2p3, 0x1.2363984p10, 32},
    {ops::legendre_p, -0x1.cp-2, 0x1.4p4, -0x1.78d94929a092ap-3, 32},
};

double value(OpId id, double a, double b = 0) {
  const double x[] = {a, b};
  return op(id).eval(x);
}

TEST(Special, KnownValues) {
  for (const Known& k : kKnown) {
    const double got = value(k.id, k.a, k.b),
                 unit = std::nextafter(std::fabs(k.value), kInf) - std::fabs(k.value);
    EXPECT_LE(std::fabs(got - k.value), k.ulps * unit)
        << op(k.id).name << "(" << k.a << ", " << k.b << "): " << got;
  }
}

TEST(Special, EdgesArePyTorchs) {
  const Known kEdges[] = {{ops::lgamma, 0, 0, kInf, 0},      {ops::lgamma, -2, 0, kInf, 0},
                          {ops::digamma, 0, 0, -kInf, 0},    {ops::digamma, -0.0, 0, kInf, 0},
                          {ops::digamma, -3, 0, kNaN, 0},    {ops::erfinv, 1, 0, kInf, 0},
                          {ops::erfinv, -1, 0, -kInf, 0},    {ops::erfinv, 1.5, 0, kNaN, 0},
                          {ops::ndtri, 0, 0, -kInf, 0},      {ops::ndtri, 1, 0, kInf, 0},
                          {ops::ndtri, -0.5, 0, kNaN, 0},    {ops::erfcx, -30, 0, kInf, 0},
                          {ops::erfcx, kInf, 0, 0, 0},       {ops::i0, kInf, 0, kNaN, 0},
                          {ops::i0e, kInf, 0, 0, 0},         {ops::i1, -kInf, 0, kNaN, 0},
                          {ops::k0, 0, 0, kInf, 0},          {ops::k0, -1, 0, kNaN, 0},
                          {ops::k1e, kInf, 0, 0, 0},         {ops::j0, kInf, 0, kNaN, 0},
                          {ops::y0, 0, 0, -kInf, 0},         {ops::y1, -1, 0, kNaN, 0},
                          {ops::airy_ai, 200, 0, 0, 0},      {ops::airy_ai, kInf, 0, kNaN, 0},
                          {ops::zeta, 1, 5, kInf, 0},        {ops::zeta, 0.5, 5, kNaN, 0},
                          {ops::zeta, 2, -3, kInf, 0},       {ops::zeta, 2.5, -3.5, kNaN, 0},
                          {ops::zeta, 2, kInf, kNaN, 0},     {ops::polygamma, 2, kInf, kNaN, 0},
                          {ops::igamma, 0, 2, 1, 0},         {ops::igamma, 0, 0, kNaN, 0},
                          {ops::igamma, kInf, 2, 0, 0},      {ops::igamma, 2, kInf, 1, 0},
                          {ops::igamma, -1, 2, kNaN, 0},     {ops::igammac, 0, 2, 0, 0},
                          {ops::igammac, 2, 0, 1, 0},        {ops::igammac, kInf, kInf, kNaN, 0},
                          {ops::chebyshev_t, 0.5, -1, 0, 0}, {ops::chebyshev_u, -1, 5, -6, 0},
                          {ops::chebyshev_v, -1, 4, 9, 0},   {ops::chebyshev_w, 1, 4, 9, 0},
                          {ops::hermite_h, 1, 600, kNaN, 0}, {ops::laguerre_l, 0, 7, 1, 0},
                          {ops::legendre_p, -1, 3, -1, 0},   {ops::hermite_he, 0.5, 2.9, -0.75, 0}};
  for (const Known& k : kEdges) {
    const double got = value(k.id, k.a, k.b);
    EXPECT_TRUE(std::isnan(k.value) ? std::isnan(got) : got == k.value)
        << op(k.id).name << "(" << k.a << ", " << k.b << "): " << got << ", not " << k.value;
  }
  for (OpId id = 0; id < ops::built_in_count; ++id)
    if (op(id).eval && calls_host(op(id), DType::f64) && !op(id).rare) {
      EXPECT_TRUE(std::isnan(value(id, kNaN, 1.5))) << op(id).name;
    }
}

TEST(Special, RareRowsAnswerWhereTheirFirstOperandIsNoNumber) {
  for (auto [id, f] : {std::pair(
                           ops::sin_far, +[](double x) { return std::sin(x); }),
                       {ops::cos_far, +[](double x) { return std::cos(x); }},
                       {ops::tan_far, +[](double x) { return std::tan(x); }}}) {
    EXPECT_TRUE(op(id).rare && calls_host(op(id), DType::f32)) << op(id).name;
    EXPECT_EQ(value(id, 7, 1e9), 7);
    EXPECT_EQ(value(id, kNaN, 1e9), f(1e9));
    EXPECT_TRUE(std::isnan(value(id, kNaN, kInf)));
  }
}

TEST(Special, CommonDivisors) {
  auto divisor = [](OpId id, int64_t a, int64_t b) {
    const int64_t x[] = {a, b};
    return op(id).eval_int(x);
  };
  EXPECT_EQ(divisor(ops::gcd, 0, 0), 0);
  EXPECT_EQ(divisor(ops::gcd, 0, -7), 7);
  EXPECT_EQ(divisor(ops::gcd, -12, 18), 6);
  EXPECT_EQ(divisor(ops::gcd, int64_t{3} << 40, int64_t{9} << 35), int64_t{3} << 35);
  EXPECT_EQ(divisor(ops::lcm, -4, 6), 12);
  EXPECT_EQ(divisor(ops::lcm, 0, 6), 0);
}

// ---- kernels ----

std::string kernel_of(const std::string& name, const std::string& type, const Op& row) {
  const std::string args = row.arity == 1 ? "%v" : "%v, %w";
  return "kernel @" + name + "(N; in %x: " + type + ", in %k: " + type + ", out %y: " + type +
         ") {\n  par simd %i in N {\n    %v = load %x[%i]\n    %w = load %k[0]\n    %r = " +
         std::string(row.name) + " " + args + "\n    store %y[%i], %r\n  }\n}\n";
}

// Tails, and vectors together with operands that do not change.
TEST(HostCall, EveryRowInEveryDType) {
  int rows = 0;
  for (OpId id = 0; id < ops::built_in_count; ++id)
    for (const std::string type : {"f32", "f64", "bf16", "i32", "i64", "u8"}) {
      const DType dtype = *parse_dtype(type);
      if (op(id).kind != Kind::map || !calls_host(op(id), dtype) ||
          !scalar_result_type(id, std::vector(op(id).arity, dtype)).ok())
        continue;
      SCOPED_TRACE(std::string(op(id).name) + " of " + type);
      check(kernel_of("one", type, op(id)), {{{"N", 1}}, {{"N", 21}}});
      ++rows;
    }
  EXPECT_GT(rows, 70);
}

// A scalar result, calls in several loops of one kernel, and calls with two classes of types.
TEST(HostCall, ScalarsAndLoops) {
  check(R"(kernel @rows(N, M; in %x: f32, in %n: i32, out %y: f32, out %z: i32) {
    par %i in N {
      %a = load %x[M*%i]
      %g = lgamma %a
      %s = reduce add simd %j in M unroll 2 {
        %v = load %x[M*%i + %j]
        %d = digamma %v
        yield %d
      }
      for simd %k in M {
        %v2 = load %x[M*%i + %k]
        %w2 = load %n[M*%i + %k]
        %b = i0e %v2
        %c = add %b, %s
        %e = add %c, %g
        %f = gcd %w2, %w2
        store %y[M*%i + %k], %e
        store %z[M*%i + %k], %f
      }
    }
  })",
        sizes_around("M", {{"N", 3}}));
}

// Kernels of one module declare each function that they call once.
TEST(HostCall, KernelsOfOneModule) {
  std::vector<Kernel> kernels;
  for (OpId id : {ops::digamma, ops::i0, ops::digamma, ops::zeta})
    kernels.push_back(*parse_kernel(kernel_of("k" + std::to_string(kernels.size()), "f32", op(id))));
  kernels[2].body[0].body.erase(kernels[2].body[0].body.begin() + 1);  // another kernel of the same row
  std::vector<const Kernel*> pointers;
  for (const Kernel& k : kernels) pointers.push_back(&k);
  const auto codes = Compiler::get().compile(pointers, host_isa());
  ASSERT_TRUE(codes.ok()) << codes.status().message();
}

TEST(HostCall, Names) {
  EXPECT_NE(host_symbol("tenon_eval_f64_digamma"), nullptr);
  EXPECT_NE(host_symbol("tenon_eval_f32_polygamma"), nullptr);
  EXPECT_NE(host_symbol("tenon_eval_i64_gcd"), nullptr);
  EXPECT_EQ(host_symbol("tenon_eval_f32_digamma"), nullptr);
  EXPECT_EQ(host_symbol("tenon_eval_f64_no_such_op"), nullptr);
  EXPECT_EQ(host_symbol("tenon_eval_"), nullptr);
}

}  // namespace
}  // namespace tenon::jit
