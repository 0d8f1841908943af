// The interpreter: kernels written by hand are compared with plain C++, and random kernels with themselves: with other numbers of
// lanes if no simd reduce depends on them, after printing and parsing, and with expanded math.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/kernel_gen.h"
#include "tests/support/sanitized.h"

namespace tenon::jit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Kernel parse(const std::string& text) {
  Result<Kernel> kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status().message() << "\n" << text;
  if (!kernel.ok()) return {};
  EXPECT_EQ(verify(*kernel).message(), "");
  return *kernel;
}

template <class T>
BufferView view(std::vector<T>& data) {
  return {data.data(), static_cast<int64_t>(data.size())};
}

std::vector<float> floats(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = std::uniform_real_distribution<float>(-3, 3)(random);
  return x;
}

// The documented order of a simd reduce, written a second time.
float vector_sum(const std::vector<float>& x, size_t lanes, size_t unroll) {
  std::vector<std::vector<float>> v(unroll, std::vector<float>(lanes, 0.0f));
  const size_t full = x.size() / lanes * lanes;
  for (size_t k = 0; k < x.size(); ++k) v[k < full ? k / lanes % unroll : unroll - 1][k % lanes] += x[k];
  for (; v.size() > 1;) {
    std::vector<std::vector<float>> half;
    for (size_t i = 0; i < v.size(); i += 2) {
      half.push_back(v[i]);
      for (size_t l = 0; l < lanes; ++l) half.back()[l] += v[i + 1][l];
    }
    v = half;
  }
  std::vector<float> sum = v[0];
  while (sum.size() > 1) {
    std::vector<float> half(sum.size() / 2);
    for (size_t l = 0; l < half.size(); ++l) half[l] = sum[l] + sum[l + half.size()];
    sum = half;
  }
  return sum[0];
}

TEST(Interp, Pointwise) {
  Kernel k = parse(R"(kernel @bias(N, M; in %x: f32, in %b: f32, in %s: f32, out %y: f32) {
  par %i in N, simd %j in M {
    %x1 = load %x[M*%i + %j]
    %b1 = load %b[%j]
    %s1 = load %s[0]
    %p = mul %x1, %s1
    %q = add %p, %b1
    store %y[M*%i + %j], %q
  }
}
)");
  std::vector<float> x = floats(21, 1), b = floats(7, 2), s = {0.7f}, y(21), want(21);
  ASSERT_EQ(interpret(k, {view(x), view(b), view(s), view(y)}, {3, 7}).message(), "");
  for (int i = 0; i < 21; ++i) {
    volatile float p = x[i] * s[0];
    want[i] = p + b[i % 7];
  }
  EXPECT_EQ(y, want);
  // Reads one row too many: the message names the address and the statement.
  std::string message = interpret(k, {view(x), view(b), view(s), view(y)}, {4, 7}).message();
  EXPECT_EQ(message, "kernel @bias: `%x1 = load %x[M*%i + %j]`: element 21 of %x, which has 21");
  EXPECT_THAT(interpret(k, {view(x), view(b), view(y)}, {3, 7}).message(),
              HasSubstr("takes 4 buffers, got 3"));
  EXPECT_THAT(interpret(k, {view(x), view(b), view(s), view(y)}, {3}).message(),
              HasSubstr("takes 2 sizes, got 1"));
  EXPECT_THAT(interpret(k, {view(x), view(b), view(s), view(y)}, {3, -7}).message(),
              HasSubstr("an extent is negative"));
}

TEST(Interp, SoftmaxWithALocalRow) {
  Kernel k = parse(R"(kernel @softmax(N, M; in %x: f32, out %y: f32; local %row: f32[M]) {
  par %i in N {
    %mx = reduce maximum simd %j in M {
      %v = load %x[M*%i + %j]
      yield %v
    }
    %s = reduce add simd %j2 in M unroll 2 {
      %v2 = load %x[M*%i + %j2]
      %d = sub %v2, %mx
      %e = exp %d
      store %row[%j2], %e
      yield %e
    }
    for simd %j3 in M {
      %e3 = load %row[%j3]
      %q = div %e3, %s
      store %y[M*%i + %j3], %q
    }
  }
}
)");
  const int n = 4, m = 37;
  std::vector<float> x = floats(n * m, 3), y(n * m);
  ASSERT_EQ(interpret(k, {view(x), view(y)}, {n, m}).message(), "");
  for (int i = 0; i < n; ++i) {
    double sum = 0;
    for (int j = 0; j < m; ++j) sum += std::exp(double{x[i * m + j]});
    for (int j = 0; j < m; ++j)
      EXPECT_NEAR(y[i * m + j], std::exp(double{x[i * m + j]}) / sum, 1e-7) << i << " " << j;
  }
}

TEST(Interp, LayerNormSumsInTheOrderOfTheLanes) {
  Kernel k = parse(R"(kernel @norm(N, M; in %x: f32, out %y: f32, out %sums: f32) {
  par %i in N {
    %s = reduce add simd %j in M unroll 4 {
      %v = load %x[M*%i + %j]
      yield %v
    }
    %n = size M
    %nf = cast.f32 %n
    %mean = div %s, %nf
    %q = reduce add simd %j2 in M {
      %v2 = load %x[M*%i + %j2]
      %d = sub %v2, %mean
      %dd = square %d
      yield %dd
    }
    %var = div %q, %nf
    %eps = const.f32 1e-05
    %ve = add %var, %eps
    %sd = sqrt %ve
    for simd %j3 in M {
      %v3 = load %x[M*%i + %j3]
      %d3 = sub %v3, %mean
      %o = div %d3, %sd
      store %y[M*%i + %j3], %o
    }
    store %sums[2*%i], %s
    store %sums[2*%i + 1], %q
  }
}
)");
  bool order_matters = false;
  for (int lanes : {4, 8, 16}) {
    for (int m : {1, 5, 16, 63, 64, 65, 200}) {
      std::vector<float> x = floats(2 * m, m), y(2 * m), sums(4);
      ASSERT_EQ(interpret(k, {view(x), view(y), view(sums)}, {2, m}, lanes).message(), "");
      for (int i = 0; i < 2; ++i) {
        std::vector<float> row(x.begin() + i * m, x.begin() + (i + 1) * m), squares;
        EXPECT_EQ(sums[2 * i], vector_sum(row, lanes, 4)) << lanes << " " << m;
        order_matters |= sums[2 * i] != vector_sum(row, lanes, 1);
        float mean = sums[2 * i] / static_cast<float>(m);
        for (float v : row) squares.push_back((v - mean) * (v - mean));
        EXPECT_EQ(sums[2 * i + 1], vector_sum(squares, lanes, 1)) << lanes << " " << m;
        float deviation = std::sqrt(sums[2 * i + 1] / static_cast<float>(m) + 1e-5f);
        for (int j = 0; j < m; ++j) EXPECT_EQ(y[i * m + j], (row[j] - mean) / deviation);
      }
    }
  }
  EXPECT_TRUE(order_matters);
}

TEST(Interp, ReduceOverTwoAxesKeepsItsLanes) {
  Kernel k = parse(R"(kernel @all(N, M; in %x: f32, out %y: f32, out %z: f32) {
  par {
    %s = reduce add %i in N, simd %j in M unroll 2 {
      %v = load %x[M*%i + %j]
      yield %v
    }
    %t = reduce add %i2 in N, %j2 in M {
      %v2 = load %x[M*%i2 + %j2]
      yield %v2
    }
    store %y[0], %s
    store %z[0], %t
  }
}
)");
  const int n = 5, m = 21, lanes = 8;
  std::vector<float> x = floats(n * m, 9), y(1), z(1);
  ASSERT_EQ(interpret(k, {view(x), view(y), view(z)}, {n, m}, lanes).message(), "");
  std::vector<float> lane(2 * lanes);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < m; ++j) lane[j % (2 * lanes)] += x[i * m + j];
  EXPECT_EQ(y[0], vector_sum(lane, lanes, 2));
  float sum = 0;
  for (float v : x) sum += v;
  EXPECT_EQ(z[0], sum);
  EXPECT_NE(y[0], z[0]);
}

TEST(Interp, EmptyReduceIsTheIdentity) {
  Kernel k = parse(R"(kernel @empty(N, M; out %a: f32, out %b: i64, out %c: u8, out %d: bool, in %x: f32) {
  par %i in N {
    %s, %m, %n, %o = reduce maximum, minimum, maximum, logical_and simd %j in M {
      %f = load %x[%j]
      %q = cast.i64 %f
      %u = cast.u8 %f
      %l = cast.bool %f
      yield %f, %q, %u, %l
    }
    store %a[%i], %s
    store %b[%i], %m
    store %c[%i], %n
    store %d[%i], %o
  }
}
)");
  std::vector<float> a(1), x;
  std::vector<int64_t> b(1);
  std::vector<uint8_t> c(1, 9), d(1, 9);
  ASSERT_EQ(interpret(k, {view(a), view(b), view(c), view(d), view(x)}, {1, 0}).message(), "");
  EXPECT_EQ(a[0], -INFINITY);
  EXPECT_EQ(b[0], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(c[0], 0);
  EXPECT_EQ(d[0], 1);
}

TEST(Interp, ColumnReduce) {
  Kernel k = parse(R"(kernel @columns(N, M; in %x: f32, out %y: f32) {
  par simd %j in M {
    %s = reduce add %i in N {
      %v = load %x[M*%i + %j]
      yield %v
    }
    store %y[%j], %s
  }
}
)");
  const int n = 9, m = 13;
  std::vector<float> x = floats(n * m, 5), y(m), want(m);
  ASSERT_EQ(interpret(k, {view(x), view(y)}, {n, m}).message(), "");
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < m; ++j) want[j] += x[i * m + j];
  EXPECT_EQ(y, want);
  int64_t sizes[] = {n, 33};
  EXPECT_EQ(par_iterations(k, sizes, 16), 3);
  EXPECT_EQ(par_iterations(k, sizes, 4), 9);
}

TEST(Interp, ArgmaxByMinimum) {
  Kernel k = parse(R"(kernel @argmax(N, M; in %x: f32, out %y: i64) {
  par %i in N {
    %mx = reduce maximum simd %j in M {
      %v = load %x[M*%i + %j]
      yield %v
    }
    %none = size M
    %at = reduce minimum simd %j2 in M {
      %v2 = load %x[M*%i + %j2]
      %eq = eq %v2, %mx
      %nan = isnan %v2
      %hit = logical_or %eq, %nan
      %k = index %j2
      %w = where %hit, %k, %none
      yield %w
    }
    store %y[%i], %at
  }
}
)");
  std::vector<float> x = {1, 7, 7, 2, -1, NAN, 9, NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  std::vector<int64_t> y(3);
  ASSERT_EQ(interpret(k, {view(x), view(y)}, {3, 4}).message(), "");
  EXPECT_THAT(y, ElementsAre(1, 1, 0));
}

TEST(Interp, ScanStartsAnewInEveryLoop) {
  Kernel k = parse(R"(kernel @cumsum(N, M; in %x: i32, out %y: i32, out %top: f32) {
  par %i in N {
    for %h in 2 {
      for %j in M {
        %v = load %x[M*%i + %j]
        %s = scan add %v
        %f = cast.f32 %v
        %m = scan maximum %f
        store %y[2*M*%i + M*%h + %j], %s
        store %top[2*M*%i + M*%h + %j], %m
      }
    }
  }
}
)");
  std::vector<int32_t> x = {1, 2, -3, std::numeric_limits<int32_t>::max(), 1, 5}, y(12);
  std::vector<float> top(12);
  ASSERT_EQ(interpret(k, {view(x), view(y), view(top)}, {2, 3}).message(), "");
  const int32_t low = std::numeric_limits<int32_t>::min();
  EXPECT_THAT(y, ElementsAre(1, 3, 0, 1, 3, 0, ~low, low, low + 5, ~low, low, low + 5));
  EXPECT_THAT(std::vector<float>(top.begin(), top.begin() + 6), ElementsAre(1, 2, 2, 1, 2, 2));
}

TEST(Interp, GatherFollowsTheIndex) {
  Kernel k = parse(R"(kernel @embedding(N, M, V; in %w: f32, in %ids: i32, out %y: f32) {
  par %i in N {
    %id32 = load %ids[%i]
    %id = cast.i64 %id32
    for simd %j in M {
      %e = load %w[M*%id + %j]
      store %y[M*%i + %j], %e
    }
  }
}
)");
  std::vector<float> w = floats(12, 6), y(8), want;
  std::vector<int32_t> ids = {2, 0};
  ASSERT_EQ(interpret(k, {view(w), view(ids), view(y)}, {2, 4, 3}).message(), "");
  want.insert(want.end(), w.begin() + 8, w.end());
  want.insert(want.end(), w.begin(), w.begin() + 4);
  EXPECT_EQ(y, want);
  for (int32_t bad : {3, -1, std::numeric_limits<int32_t>::min()}) {
    ids[1] = bad;
    EXPECT_EQ(interpret(k, {view(w), view(ids), view(y)}, {2, 4, 3}).message(),
              "kernel @embedding: `%e = load %w[M*%id + %j]`: element " + std::to_string(4 * int64_t{bad}) +
                  " of %w, which has 12");
  }
}

TEST(Interp, HalvesRoundOnStore) {
  Kernel k = parse(R"(kernel @halves(N; in %x: bf16, in %h: f16, out %y: bf16, out %z: f16, out %w: f32) {
  par simd %i in N {
    %a = load %x[%i]
    %b = load %h[%i]
    %s = add %a, %b
    %r = cast.bf16 %s
    %d = sub %s, %r
    store %y[%i], %s
    store %z[%i], %s
    store %w[%i], %d
  }
}
)");
  std::vector<uint16_t> x = {f32_to_bf16(1), f32_to_bf16(-256), f32_to_bf16(65536), f32_to_bf16(NAN)};
  std::vector<uint16_t> h = {f32_to_f16(0x1p-8f), f32_to_f16(1), f32_to_f16(1), f32_to_f16(1)}, y(4), z(4);
  std::vector<float> w(4);
  ASSERT_EQ(interpret(k, {view(x), view(h), view(y), view(z), view(w)}, {4}).message(), "");
  EXPECT_EQ(bf16_to_f32(y[0]), 1.0f);  // halfway between 1 and 1 + 2^-7, rounded to even
  EXPECT_EQ(w[0], 0x1p-8f);
  EXPECT_EQ(f16_to_f32(z[0]), 1 + 0x1p-8f);
  EXPECT_EQ(bf16_to_f32(y[1]), -255.0f);
  EXPECT_EQ(f16_to_f32(z[2]), INFINITY);
  EXPECT_TRUE(std::isnan(bf16_to_f32(y[3])) && std::isnan(f16_to_f32(z[3])));
}

TEST(Interp, IntegersWrapAndBoolsAreBytes) {
  Kernel k = parse(
      R"(kernel @ints(N; in %x: i64, in %f: f32, in %p: bool, out %a: i64, out %b: i8,
             out %c: u8, out %d: bool, out %e: i32) {
  par simd %i in N {
    %v = load %x[%i]
    %t = load %f[%i]
    %q = load %p[%i]
    %sq = mul %v, %v
    %n = cast.i8 %v
    %nn = add %n, %n
    %u = cast.u8 %t
    %un = bit_not %u
    %nz = cast.bool %t
    %not = bit_not %q
    %both = logical_xor %nz, %not
    %ti = cast.i32 %t
    store %a[%i], %sq
    store %b[%i], %nn
    store %c[%i], %un
    store %d[%i], %both
    store %e[%i], %ti
  }
}
)");
  std::vector<int64_t> x = {int64_t{1} << 40, 100, -7}, a(3);
  std::vector<float> f = {-1.9f, 3e9f, 0};
  std::vector<uint8_t> p = {1, 0, 1}, c(3), d(3, 9);
  std::vector<int8_t> b(3);
  std::vector<int32_t> e(3);
  ASSERT_EQ(
      interpret(k, {view(x), view(f), view(p), view(a), view(b), view(c), view(d), view(e)}, {3}).message(),
      "");
  EXPECT_THAT(a, ElementsAre(0, 10000, 49));
  EXPECT_THAT(b, ElementsAre(0, -56, -14));
  EXPECT_THAT(c, ElementsAre(0, 255, 255));
  EXPECT_THAT(d, ElementsAre(1, 0, 0));
  EXPECT_THAT(e, ElementsAre(-1, std::numeric_limits<int32_t>::min(), 0));
}

TEST(Interp, F32ComputesInF32) {
  Kernel k =
      parse(R"(kernel @exact(N; in %x: f32, in %y: f32, out %f: f32, out %s: f32, out %q: f32, out %w: f64) {
  par simd %i in N {
    %a = load %x[%i]
    %b = load %y[%i]
    %fma = fma %a, %a, %b
    %p = mul %a, %b
    %sum = add %p, %b
    %div = div %a, %b
    %da = cast.f64 %a
    %third = const.f64 0.1
    %third32 = const.f32 0.1
    %t64 = cast.f64 %third32
    %w0 = mul %da, %third
    %w1 = sub %w0, %t64
    store %f[%i], %fma
    store %s[%i], %sum
    store %q[%i], %div
    store %w[%i], %w1
  }
}
)");
  std::mt19937 random(4);
  std::vector<float> x(2000), y(2000), f(2000), s(2000), q(2000);
  std::vector<double> w(2000);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0xbfffffff);
    y[i] = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0xbfffffff);
  }
  x[0] = 1 + 0x1p-12f, y[0] = 0x1p-80f;  // a square that is a tie in f32, plus a little
  ASSERT_EQ(interpret(k, {view(x), view(y), view(f), view(s), view(q), view(w)}, {2000}).message(), "");
  for (size_t i = 0; i < x.size(); ++i) {
    volatile float p = x[i] * y[i];
    EXPECT_EQ(f[i], std::fma(x[i], x[i], y[i]));
    EXPECT_EQ(s[i], p + y[i]);
    EXPECT_EQ(q[i], x[i] / y[i]);
    volatile double wide = double{x[i]} * 0.1;
    EXPECT_EQ(w[i], wide - double{0.1f});
  }
}

TEST(Interp, LocalsStartPoisoned) {
  Kernel k = parse(R"(kernel @leak(N; in %x: i32, out %y: i32; local %t: i32[1]) {
  par %i in N {
    %old = load %t[0]
    store %y[%i], %old
    %v = load %x[%i]
    store %t[0], %v
  }
}
)");
  std::vector<int32_t> x = {1, 2, 3}, y(3);
  ASSERT_EQ(interpret(k, {view(x), view(y)}, {3}).message(), "");
  const int32_t poison = static_cast<int32_t>(0xA5A5A5A5);
  EXPECT_THAT(y, ElementsAre(poison, poison, poison));
}

bool has_simd_reduce(const Block& block) {
  return std::ranges::any_of(block, [](const Stmt& s) {
    return (s.kind == Stmt::Kind::reduce && s.simd) || has_simd_reduce(s.body);
  });
}

TEST(RandomKernels, AreValidAndRun) {
  int lane_independent = 0, reduces = 0;
  for (int seed = 0; seed < rounds(200); ++seed) {
    KernelCase c = random_kernel(seed);
    std::string text = print(c.kernel);
    ASSERT_EQ(verify(c.kernel).message(), "") << "seed " << seed << "\n" << text;
    Result<Kernel> again = parse_kernel(text);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\nseed " << seed << "\n" << text;
    ASSERT_EQ(print(*again), text);
    ASSERT_EQ(identity(*again), identity(c.kernel));
    Kernel expanded = c.kernel;
    expand_math(expanded);
    ASSERT_EQ(verify(expanded).message(), "") << "seed " << seed << "\n" << print(expanded);

    BufferBytes a = c.data, b = c.data, e = c.data;
    ASSERT_EQ(interpret(c.kernel, views(c, a), c.sizes).message(), "") << "seed " << seed << "\n" << text;
    ASSERT_EQ(interpret(*again, views(c, b), c.sizes).message(), "");
    ASSERT_EQ(first_difference(c, a, b), "") << "seed " << seed << "\n" << text;
    ASSERT_EQ(interpret(expanded, views(c, e), c.sizes).message(), "");
    ASSERT_EQ(first_difference(c, a, e), "") << "seed " << seed << "\n" << print(expanded);
    if (has_simd_reduce(c.kernel.body)) {
      ++reduces;
      continue;
    }
    ++lane_independent;
    BufferBytes d = c.data;
    ASSERT_EQ(interpret(c.kernel, views(c, d), c.sizes, 4).message(), "");
    ASSERT_EQ(first_difference(c, a, d), "") << "seed " << seed << "\n" << text;
  }
  EXPECT_GT(lane_independent, rounds(30));
  EXPECT_GT(reduces, rounds(30));
}

}  // namespace
}  // namespace tenon::jit
