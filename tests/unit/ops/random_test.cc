// Random numbers: compares random_uniform with philox, which gives the published answers (tests/unit/ops/math_test.cc), and programs
// with the evaluator, bit for bit, whatever nodes are fused. Also covers positions beyond 2^32 and statistics of one seed and of
// several. Every statistic has fixed seeds and bounds that a true generator would exceed once in 10^5 times.
#include <cmath>

#include "src/ops/math/scalar.h"
#include "src/ops/rows/names.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

constexpr int64_t kSeeds[] = {0, 1, -1, 0x13198a2e00000000, 0x5eed, INT64_MIN};

float expected_number(int64_t place, int64_t seed) {
  const auto block = static_cast<uint64_t>(scalar::philox(place / 2 ^ (seed & ~int64_t{0xffffffff}), seed));
  return static_cast<float>(static_cast<uint32_t>(place % 2 ? block >> 32 : block) >> 8) * 0x1p-24f;
}

HostTensor seed_tensor(int64_t seed) {
  HostTensor t(DType::i64, {});
  t.set(0, {0, seed});
  return t;
}

Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  return *graph;
}

std::vector<HostTensor> results_of(Program& program, std::vector<HostTensor> inputs,
                                   std::vector<HostTensor> outputs) {
  outputs = blank_like(outputs);
  const Status status = run(program, inputs, outputs);
  TENON_CHECK(status.ok(), status.message());
  return outputs;
}

std::vector<HostTensor> results_of(const Graph& graph, std::vector<HostTensor> inputs,
                                   std::vector<HostTensor> outputs) {
  auto program = Program::make(graph, {}, {});
  TENON_CHECK(program.ok(), program.status().message());
  return results_of(**program, std::move(inputs), std::move(outputs));
}

std::vector<float> numbers(int64_t count, int64_t seed) {
  const Graph graph = parsed("graph @f(%s: i64[]) {\n %u = random_uniform(%s){shape=[" +
                             std::to_string(count) + "]}\n return %u\n}");
  const HostTensor u = results_of(graph, {seed_tensor(seed)}, {HostTensor(DType::f32, {count})})[0];
  const auto* first = reinterpret_cast<const float*>(u.bytes.data());
  return {first, first + count};
}

TEST(Random, ElementsDependOnSeedAndPlaceAlone) {
  for (int64_t seed : kSeeds)
    for (const char* shape : {"[24]", "[2,3,4]", "[]", "[5,1,7]", "[0,3]"}) {
      const Graph graph = parsed(std::string("graph @f(%s: i64[]) {\n %u = random_uniform(%s){shape=") +
                                 shape + "}\n return %u\n}");
      const auto evaluated = evaluate(graph, std::vector<HostTensor>{seed_tensor(seed)});
      ASSERT_TRUE(evaluated.ok()) << evaluated.status().message();
      const HostTensor& u = (*evaluated)[0];
      for (int64_t i = 0; i < u.count(); ++i)
        ASSERT_EQ(u.number(i), expected_number(i, seed)) << shape << " " << i;
      EXPECT_EQ(results_of(graph, {seed_tensor(seed)}, {HostTensor(DType::f32, u.shape)})[0].bytes, u.bytes)
          << shape;
    }
  EXPECT_EQ(expected_number(0, 0), static_cast<float>(0xff1dae) * 0x1p-24f);  // the first known answer
  EXPECT_EQ(expected_number(1, 0), static_cast<float>(0x6cd10d) * 0x1p-24f);
}

// A dropout with symbolic sizes and its mask, together with the transposed numbers themselves.
TEST(Random, ProgramsOfAnySizeAgreeWithTheEvaluator) {
  const Graph graph = parsed(R"(graph @f(%x: f32[N,M], %b: f32[M], %s: i64[]) {
    %y = add(%x, %b)
    %u = random_uniform(%s){shape=[N,M]}
    %p = full{value=0.9, shape=[], dtype=f32}
    %k = lt(%u, %p)
    %f = cast(%k){dtype=f32}
    %d = mul(%y, %f)
    %t = transpose(%u){perm=[1,0]}
    %r = sum(%u){axes=[1]}
    return %d, %k, %t, %r
  })");
  auto program = Program::make(graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (const auto& [n, m] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {1, 1}, {64, 33}, {0, 4}, {7, 256}}) {
    const std::vector<HostTensor> inputs = {random_tensor(DType::f32, {n, m}, 1),
                                            random_tensor(DType::f32, {m}, 2), seed_tensor(n * 1000 + m)};
    const auto expected = evaluate(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    std::vector<HostTensor> blank;
    for (const HostTensor& e : *expected) blank.emplace_back(e.dtype, e.shape);
    const std::vector<HostTensor> got = results_of(**program, inputs, blank);
    for (int o : {0, 1, 2}) EXPECT_EQ(got[o].bytes, (*expected)[o].bytes) << n << " " << m << " output " << o;
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(got[3].number(i), (*expected)[3].number(i), 1e-4);
  }
}

// Positions around 2^32. Only these elements are computed, since the kernel reads through the slice.
TEST(Random, PlacesBeyondThirtyTwoBits) {
  constexpr int64_t kFirst = (int64_t{1} << 32) - 3, kCount = 6;
  const Graph graph = parsed(
      "graph @f(%s: i64[]) {\n %i = iota{shape=[8589934592], dtype=i64}\n"
      " %c = slice(%i){axis=0, start=4294967293, end=4294967299}\n"
      " %b = philox(%c, %s)\n return %b\n}");
  for (int64_t seed : kSeeds) {
    const HostTensor b = results_of(graph, {seed_tensor(seed)}, {HostTensor(DType::i64, {kCount})})[0];
    for (int64_t i = 0; i < kCount; ++i) EXPECT_EQ(b.get(i).i, scalar::philox(kFirst + i, seed)) << i;
  }
}

// ---- statistics ----

// Mean, variance, and the chi-square of 256 bins, each within 5 sigma.
TEST(Random, NumbersAreUniform) {
  constexpr int64_t kCount = 1 << 20;
  for (int64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    double sum = 0, squares = 0, chi = 0;
    std::vector<int64_t> bins(256), low_bits(256);
    for (float u : numbers(kCount, seed)) {
      ASSERT_TRUE(u >= 0 && u < 1);
      sum += u;
      squares += (u - 0.5) * (u - 0.5);
      ++bins[static_cast<int>(u * 256)];
      ++low_bits[static_cast<int>(u * 0x1p24f) & 255];
    }
    EXPECT_NEAR(sum / kCount, 0.5, 5 / std::sqrt(12.0 * kCount));
    EXPECT_NEAR(squares / kCount, 1.0 / 12, 5 / std::sqrt(180.0 * kCount));
    for (const auto& counts : {bins, low_bits}) {
      chi = 0;
      for (int64_t n : counts) chi += std::pow(static_cast<double>(n) - kCount / 256.0, 2) / (kCount / 256.0);
      EXPECT_NEAR(chi, 255, 5 * std::sqrt(2 * 255.0));
    }
  }
}

double correlation(const std::vector<float>& a, const std::vector<float>& b, size_t lag) {
  double sum = 0;
  const size_t n = a.size() - lag;
  for (size_t i = 0; i < n; ++i) sum += (a[i] - 0.5) * (b[i + lag] - 0.5);
  return 12 * sum / static_cast<double>(n);
}

// Numbers at adjacent positions and a row apart, and numbers of seeds that differ in one bit: the bits 1 and 2 of the low half of the
// seed, the lowest and the highest bit of the upper half.
TEST(Random, NumbersAreIndependent) {
  constexpr int64_t kCount = 1 << 20;
  const double bound = 5 / std::sqrt(static_cast<double>(kCount));
  const std::vector<float> first = numbers(kCount, 0);
  for (size_t lag : {1, 2, 3, 8, 64, 768, 1024}) EXPECT_NEAR(correlation(first, first, lag), 0, bound) << lag;
  for (int64_t seed : {int64_t{1}, int64_t{2}, int64_t{1} << 32, INT64_MIN}) {
    const std::vector<float> other = numbers(kCount, seed);
    EXPECT_NEAR(correlation(first, other, 0), 0, bound) << seed;
    EXPECT_NEAR(correlation(first, other, 1), 0, bound) << seed;
    int64_t same = 0;
    for (size_t i = 0; i < first.size(); ++i) same += first[i] == other[i];
    EXPECT_LE(same, 4) << seed;  // the expected number is 1/16
  }
}

TEST(Random, WhatIsRefused) {
  for (const auto& [text, why] : std::vector<std::pair<const char*, const char*>>{
           {"graph @f(%s: i64[2]) {\n %u = random_uniform(%s){shape=[3]}\n return %u\n}", "must be a scalar"},
           {"graph @f(%s: i32[]) {\n %u = random_uniform(%s){shape=[3]}\n return %u\n}", "needs i64"},
           {"graph @f(%s: i64[]) {\n %u = random_uniform(%s){shape=[-3]}\n return %u\n}", "at least 0"},
           {"graph @f(%s: i32[]) {\n %u = philox(%s, %s)\n return %u\n}", "needs i64"}}) {
    const auto graph = parse_graph(text);
    ASSERT_FALSE(graph.ok()) << text;
    EXPECT_NE(graph.status().message().find(why), std::string::npos) << graph.status().message();
  }
}

}  // namespace
}  // namespace tenon
