// The approximate functions of CUDA text, which are accurate enough for results of 16 bits, on the host. The counterparts of a device's
// instructions (tests/support/nvidia/cuda_host.h) have errors as large as a device may have.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/nvidia/cuda_run.h"

namespace tenon::jit {
namespace {

// A kernel that computes %out from %in with approximate functions. body computes %o from %x, with constants %one, %half, and
// %r = sqrt(1/2).
CudaKernel function_kernel(const std::string& name, const char* body) {
  const auto kernel =
      parse_kernel("kernel @" + name +
                   "(N; in %in: f32, out %out: f32) {\npar simd %i in N {\n%one = const.f32 1.0\n%half = "
                   "const.f32 0.5\n%r = const.f32 0.70710678118\n%x = load %in[%i]\n" +
                   body + "\nstore %out[%i], %o\n}\n}");
  TENON_CHECK(kernel.ok(), kernel.status().message());
  CudaSchedule s;
  s.whole = s.approximate = true;
  return {*kernel, s};
}

struct Approximate {
  const char* name;
  const char* body;
  double (*exact)(double);
};

double exact_gelu_tanh(double x) {
  return x / (1 + std::exp(-2 * 0.7978845608 * (x + 0.044715 * x * x * x)));
}
double exact_gelu(double x) { return x / 2 * std::erfc(-x * std::sqrt(0.5)); }

// The error may be an eighth of the distance between adjacent numbers of f16.
TEST(EmitCudaFunctions, ApproximateFunctions) {
  const Approximate all[] = {
      {"gelu", "%z = mul %x, %r\n%e = erf %z\n%f = add %e, %one\n%h = mul %x, %half\n%o = mul %h, %f",
       exact_gelu},
      {"gelu2", "%z = mul %x, %r\n%e = erf %z\n%f = add %one, %e\n%h = mul %x, %half\n%o = mul %h, %f",
       exact_gelu},
      {"erf", "%o = erf %x", [](double x) { return std::erf(x); }},
      {"erfc", "%o = erfc %x", [](double x) { return std::erfc(x); }},
      {"sigmoid", "%o = sigmoid %x", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"tanh", "%o = tanh %x", [](double x) { return std::tanh(x); }},
      {"gelu_tanh",
       "%a = mul %x, %x\n%b = mul %a, %x\n%c = const.f32 0.044715\n%d = mul %b, %c\n%e = add %x, %d\n"
       "%f = const.f32 0.7978845608\n%g = mul %e, %f\n%p = tanh %g\n%h = mul %x, %half\n%q = add %p, %one\n"
       "%o = mul %h, %q",
       exact_gelu_tanh},
      {"silu", "%s = sigmoid %x\n%o = mul %x, %s", [](double x) { return x / (1 + std::exp(-x)); }},
  };
  constexpr int64_t kSamples = 200001;
  std::vector<float> x, y(kSamples);
  for (int64_t i = 0; i < kSamples; ++i) x.push_back(static_cast<float>((i - kSamples / 2) * 1e-4));  // to 10
  for (int e = -40; e < 0; ++e) x[static_cast<size_t>(e + 40)] = std::ldexp(1.3f, e);
  std::vector<CudaKernel> kernels;
  for (const Approximate& a : all) {
    kernels.push_back(function_kernel("approximate_" + std::string(a.name), a.body));
  }
  const auto program = CudaProgram::compile(kernels);
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (size_t k = 0; k < kernels.size(); ++k) {
    void* buffers[] = {x.data(), y.data()};
    ASSERT_EQ((*program)->run(kernels[k], buffers, {kSamples}, 0), "");
    double worst = 0;
    float where = 0;
    for (int64_t i = 0; i < kSamples; ++i) {
      const double want = all[k].exact(x[static_cast<size_t>(i)]);
      const double step = std::ldexp(1.0, std::max(std::ilogb(want), -17) - 10);  // ilogb(0): INT_MIN
      const double off = std::abs(y[static_cast<size_t>(i)] - want) / step;
      if (!(off <= worst)) worst = off, where = x[static_cast<size_t>(i)];
    }
    std::printf("%s: %.4f of a step, at %g\n", all[k].name, worst, where);
    EXPECT_LE(worst, 0.125) << all[k].name << " of " << where;
  }
}

// Logarithms are as accurate near 1, where they are small, as elsewhere, and at the ends of their domain.
TEST(EmitCudaFunctions, ApproximateLogarithms) {
  struct Logarithm {
    const char* body;
    double (*exact)(double);
  };
  const Logarithm all[] = {{"%o = log %x", [](double x) { return std::log(x); }},
                           {"%o = log2 %x", [](double x) { return std::log2(x); }},
                           {"%o = log10 %x", [](double x) { return std::log10(x); }},
                           {"%d = sub %x, %one\n%o = log1p %d",
                            [](double x) { return std::log1p(double{static_cast<float>(x) - 1.0f}); }}};
  std::vector<float> x;
  for (int i = -(1 << 18); i <= 1 << 18; ++i)
    x.push_back(1 + std::ldexp(static_cast<float>(i), -24));  // 2^-6
  for (int i = 1; i < 4000; ++i) x.push_back(static_cast<float>(i) * 1e-3f);
  for (int e = -126; e < 128; ++e) x.push_back(std::ldexp(1.3f, e));
  const size_t numbers = x.size();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float special : {0.0f, -0.0f, kInf, -1.0f, -kInf, std::numeric_limits<float>::quiet_NaN()})
    x.push_back(special);
  std::vector<CudaKernel> kernels;
  for (const Logarithm& l : all) {
    kernels.push_back(function_kernel("logarithm" + std::to_string(kernels.size()), l.body));
  }
  const auto program = CudaProgram::compile(kernels);
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (size_t k = 0; k < kernels.size(); ++k) {
    std::vector<float> y(x.size());
    void* buffers[] = {x.data(), y.data()};
    ASSERT_EQ((*program)->run(kernels[k], buffers, {static_cast<int64_t>(x.size())}, 0), "");
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = all[k].exact(x[i]);
      if (i >= numbers) {
        EXPECT_TRUE(y[i] == want || (std::isnan(y[i]) && std::isnan(want))) << x[i] << ": " << y[i];
        continue;
      }
      const double off = y[i] == want ? 0 : std::abs(y[i] / want - 1);
      ASSERT_LE(off, 0x1p-17) << all[k].body << " of " << x[i] << " is " << y[i];
      worst = std::max(worst, off);
    }
    std::printf("%s: 2^%.1f\n", all[k].body, std::log2(worst));
  }
}

// Quotients over the whole range of f32, which bf16 shares.
TEST(EmitCudaFunctions, ApproximateQuotients) {
  std::vector<float> x;
  for (int e = -126; e < 128; ++e) x.push_back(std::ldexp(e % 2 ? 1.3f : -1.7f, e));
  for (float special : {0.0f, -0.0f, std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    x.push_back(special);
  const auto n = static_cast<int64_t>(x.size());
  const auto kernel =
      parse_kernel(R"(kernel @quotients(N, M; in %a: f32, in %b: f32, out %q: f32, out %r: f32) {
    par simd %i in N {
      for %j in M {
        %x = load %a[%i]
        %y = load %b[%j]
        %d = div %x, %y
        %e = reciprocal %y
        store %q[M*%i + %j], %d
        store %r[M*%i + %j], %e
      }
    }
  })");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  CudaSchedule s;
  s.whole = s.approximate = true;
  const CudaKernel k{*kernel, s};
  const auto program = CudaProgram::compile({k});
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<float> q(x.size() * x.size()), r(q.size());
  void* buffers[] = {x.data(), x.data(), q.data(), r.data()};
  ASSERT_EQ((*program)->run(k, buffers, {n, n}, 0), "");
  auto good = [](float got, float want) {
    if (std::isnan(want) || std::isinf(want) || want == 0)
      return std::isnan(want) ? std::isnan(got) : got == want;
    return std::abs(got - want) <=
           std::ldexp(std::abs(want), -20) + 0x1p-126f / 256;  // the latter is below the numbers of bf16
  };
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j) {
      const size_t at = i * x.size() + j;
      ASSERT_TRUE(good(q[at], x[i] / x[j])) << x[i] << " / " << x[j] << " = " << q[at];
      ASSERT_TRUE(good(r[at], 1 / x[j])) << "1 / " << x[j] << " = " << r[at];
    }
}

}  // namespace
}  // namespace tenon::jit
