// Rows that nothing keeps and that are read one time less (jit/transform/gpu/join_online_reductions.h). Compares the rewritten kernel in
// the interpreter, and its CUDA text on the host, with the original kernel in the interpreter: special values, every length and
// type, sums that nearly cancel. Also plants faults in the text. No GPU is needed.
#include "jit/transform/gpu/join_online_reductions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/support/nvidia/cuda_check.h"
#include "tests/support/nvidia/cuda_online.h"
#include "tests/support/nvidia/cuda_variant.h"
#include "tests/support/sanitized.h"

namespace tenon::jit {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kKinds = 11;

// Row i, which is of one of kKinds kinds.
std::vector<float> row_of(std::mt19937& random, int64_t i, int64_t m) {
  std::vector<float> row(static_cast<size_t>(m));
  std::uniform_real_distribution<float> any(-3, 3);
  for (float& x : row) x = any(random);
  auto at = [&] { return m == 0 ? size_t{0} : random() % static_cast<size_t>(m); };
  if (m == 0) return row;
  switch (i % kKinds) {
    case 1: std::ranges::fill(row, -kInf); break;
    case 2: row[at()] = kInf; break;
    case 3: row[at()] = kNaN; break;
    case 4: std::fill(row.begin(), row.begin() + m * 3 / 4, -kInf); break;
    case 5: std::fill(row.begin() + m / 4, row.end(), -kInf); break;
    case 6:  // the maximum grows with every vector
      for (int64_t j = 0; j < m; ++j) row[static_cast<size_t>(j)] = 0.0625f * static_cast<float>(j);
      break;
    case 7:
      for (int64_t j = 0; j < m; ++j) row[static_cast<size_t>(j)] = -0.125f * static_cast<float>(j);
      break;
    case 8:  // only the largest element contributes to a sum of exponentials
      std::ranges::fill(row, -6e4f);
      row[at()] = 6e4f;
      break;
    case 9:
      std::ranges::fill(row, -kInf);
      row[at()] = 2;
      break;
    case 10:  // squares overflow
      for (int64_t j = 0; j < m; ++j) row[static_cast<size_t>(j)] = j % 2 ? 0x1p65f : -0x1p65f;
      break;
    default: break;
  }
  return row;
}

float element(DType t, const char* p) {
  if (t == DType::f32) {
    float x;
    std::memcpy(&x, p, 4);
    return x;
  }
  uint16_t x;
  std::memcpy(&x, p, 2);
  return t == DType::bf16 ? bf16_to_f32(x) : f16_to_f32(x);
}

// Returns "" if every output is within the tolerance of its type, and NaN and infinite where it must be.
std::string distance(const KernelCase& c, const BufferBytes& got, const BufferBytes& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    const Buffer& b = c.kernel.buffers[i];
    if (b.role != Buffer::Role::out) continue;
    const double unit = b.type == DType::bf16 ? 0x1p-8 : b.type == DType::f16 ? 0x1p-10 : 0x1p-18;
    for (int64_t e = 0; e < c.lengths[i]; ++e) {
      const double x = element(b.type, got[i].data() + e * size_of(b.type)),
                   y = element(b.type, want[i].data() + e * size_of(b.type));
      if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= unit * (1 + std::abs(y))) continue;
      return "%" + b.name + "[" + std::to_string(e) + "] = " + std::to_string(x) + ", " + std::to_string(y) +
             " is wanted";
    }
  }
  return "";
}

// A device that keeps no row.
CudaDevice forgetful() {
  CudaDevice d;
  d.architecture = 80;
  d.registers = d.shared_bytes = 0;
  return d;
}

// The rewritten kernel, also for rows of one element or none, for which a thread is enough.
CudaKernel online_kernel(const KernelCase& c) {
  const KernelVariant v = variant_of(c.kernel, c.sizes, forgetful(), 16, 1 << 20);
  EXPECT_EQ(v.passes.size(), c.sizes[1] > 1 ? 1u : 0u) << describe(v);
  if (!v.passes.empty()) return v;
  CudaKernel k{*join_online_reductions(c.kernel), v.schedule};
  k.schedule.form = CudaSchedule::Form::row;
  k.schedule.locals = CudaSchedule::Locals::none;
  k.schedule.team = 8;
  return k;
}

std::vector<std::pair<int64_t, int64_t>> lengths(std::string_view text, DType type) {
  std::vector<std::pair<int64_t, int64_t>> all{{0, 8},       {3, 0},       {kKinds, 1},    {kKinds, 3},
                                               {kKinds, 31}, {kKinds, 64}, {kKinds, 1000}, {kKinds, 127}};
  if (type == DType::f32) all.emplace_back(kKinds, 5003);
  if (text.find("@cross_entropy") != text.npos) all.erase(all.begin() + 1);  // an empty row has no target
  return sampled(all);
}

TEST(Online, InterpretersAgree) {
  for (const char* text : kOnlineTexts)
    for (const auto& [n, m] : lengths(text, DType::f32)) {
      const KernelCase c = online_case(text, DType::f32, n, m, row_of);
      SCOPED_TRACE(c.kernel.name + " " + std::to_string(m));
      const auto once = join_online_reductions(c.kernel);
      ASSERT_TRUE(once);
      EXPECT_FALSE(join_online_reductions(*once)) << "a second run changes the kernel again";
      BufferBytes want = c.data, got = c.data;
      ASSERT_TRUE(interpret(c.kernel, views(c, want), c.sizes).ok());
      const Status done = interpret(*once, views(c, got), c.sizes);
      ASSERT_TRUE(done.ok()) << done.message();
      EXPECT_EQ(distance(c, got, want), "") << print(*once);
    }
}

TEST(Online, TextAgrees) {
  std::map<std::string, int> teams;
  for (bool approximate : {false, true}) {
    std::vector<CudaTry> tries;
    for (const char* text : kOnlineTexts)
      for (DType type : {DType::f32, DType::bf16, DType::f16})
        for (const auto& [n, m] : lengths(text, type)) {
          CudaTry t{online_case(text, type, n, m, row_of), {}};
          t.kernel = online_kernel(t.c);
          if (t.kernel.schedule.approximate != approximate || t.kernel.schedule.wide) continue;
          ++teams[t.kernel.schedule.team > 32 ? "block" : "warp"];
          t.kernel.kernel.name += "_" + std::to_string(tries.size());
          tries.push_back(std::move(t));
        }
    check_tries(tries, distance);
  }
  EXPECT_GT(teams["block"], 10);
  EXPECT_GT(teams["warp"], 10);
}

// Rewritten kernels whose rows are kept after all, in registers of a block or a cluster, and clusters that read rows that they do not
// keep.
TEST(Online, RowsOfBlocksAndClusters) {
  std::vector<CudaTry> tries;
  for (const char* text : kOnlineTexts)
    for (int cluster : {1, 4})
      for (bool kept : {false, true}) {
        CudaTry t{online_case(text, DType::f32, kKinds, 1000, row_of), {}};
        if (kept && t.c.kernel.name == "group_norm") continue;  // loops of two axes
        CudaSchedule s;
        s.form = CudaSchedule::Form::row;
        s.block = s.team = 64;
        s.vector = 4;
        s.whole = true;
        s.cluster = cluster;
        if (kept) {
          s.locals = CudaSchedule::Locals::registers;
          s.chunks = 4 / cluster;
        }
        t.kernel = {*join_online_reductions(t.c.kernel), s};
        t.kernel.kernel.name += "_" + std::to_string(tries.size());
        tries.push_back(std::move(t));
      }
  check_tries(tries, distance);
}

// Rematerialized locals of random kernels have the same values as before.
TEST(Online, RandomKernelsAgree) {
  int changed = 0;
  for (uint64_t seed = 1; seed <= rounds(1500); ++seed) {
    const KernelCase c = random_kernel(seed);
    const auto once = join_online_reductions(c.kernel);
    if (!once) continue;
    ++changed;
    SCOPED_TRACE(std::to_string(seed) + "\n" + print(c.kernel) + print(*once));
    EXPECT_FALSE(join_online_reductions(*once)) << "a second run changes the kernel again";
    BufferBytes want = c.data, got = c.data;
    ASSERT_TRUE(interpret(c.kernel, views(c, want), c.sizes).ok());
    const Status done = interpret(*once, views(c, got), c.sizes);
    ASSERT_TRUE(done.ok()) << done.message();
    ASSERT_EQ(first_difference(c, got, want), "");
  }
  std::printf("%d kernels changed\n", changed);
  EXPECT_GT(changed, rounds(20));
}

// Rows of every kind that end within a vector.
TEST(Online, RowsThatEndWithinAVector) {
  std::vector<CudaTry> tries;
  for (const char* text : kOnlineTexts)
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      auto rows = [kind](std::mt19937& random, int64_t, int64_t m) { return row_of(random, kind, m); };
      CudaTry t{online_case(text, DType::f32, 1, 1001, rows), {}};
      if (t.c.kernel.name == "group_norm") continue;  // the parts of its rows begin at any element
      CudaSchedule s;
      s.form = CudaSchedule::Form::row;
      s.block = s.team = 64;
      s.vector = 4;
      t.kernel = {*join_online_reductions(t.c.kernel), s};
      t.kernel.kernel.name += "_" + std::to_string(tries.size());
      tries.push_back(std::move(t));
    }
  check_tries(tries, distance);
}

// ---- squares that nearly cancel ----

// The distances of the rows' variances from those computed in double.
std::vector<double> variances_off(const KernelCase& c, const BufferBytes& got) {
  const int64_t m = c.sizes[1];
  std::vector<double> off;
  for (int64_t i = 0; i < c.sizes[0]; ++i) {
    auto x = [&](int64_t j) { return double{element(DType::f32, c.data[0].data() + (i * m + j) * 4)}; };
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < m; ++j) sum += x(j);
    const double mean = sum / static_cast<double>(m);
    for (int64_t j = 0; j < m; ++j) squares += (x(j) - mean) * (x(j) - mean);
    const double want = squares / static_cast<double>(m);
    off.push_back(std::abs(element(DType::f32, got[1].data() + i * 4) - want) / want);
  }
  return off;
}

constexpr const char* kVariance = R"(kernel @variance(N, M; in %x: f32, out %l: f32) {
  par %i in N {
    %n = size M
    %nf = cast.f32 %n
    %sum = reduce add simd %j in M {
      %v = load %x[M*%i + %j]
      yield %v
    }
    %mean = div %sum, %nf
    %sq = reduce add simd %j2 in M {
      %v2 = load %x[M*%i + %j2]
      %d = sub %v2, %mean
      %d2 = mul %d, %d
      yield %d2
    }
    %var = div %sq, %nf
    store %l[%i], %var
  }
})";

// Variances are as accurate as those of two loops if the mean is large, if a thread's first element is far from the others, and if
// there is no spread.
TEST(Online, VariancesBesideLargeMeans) {
  constexpr int64_t kRows = 7, kLong = 200003;
  auto rows = [](std::mt19937& random, int64_t i, int64_t m) {
    std::vector<float> row(static_cast<size_t>(m));
    std::normal_distribution<float> normal(i == 0 ? 0.0f : 1e4f, 1);
    for (float& x : row) x = normal(random);
    if (i == 2) row[0] = 2e4f;                           // the first element of one thread
    if (i == 3) std::fill_n(row.begin(), 3000, 1.1e4f);  // the first elements of all threads
    if (i == 4) std::ranges::sort(row);
    if (i == 6) std::fill_n(row.begin(), kLong / 2, 0.0f);
    if (i == 5)
      for (int64_t j = 0; j < m; ++j) row[static_cast<size_t>(j)] = 1e4f + static_cast<float>(j % 2);
    return row;
  };
  const KernelCase c = online_case(kVariance, DType::f32, kRows, kLong, rows);
  const KernelVariant once = variant_of(c.kernel, c.sizes, forgetful(), 16, 1 << 20);
  ASSERT_EQ(describe(once), "row 1024x1 vector 1 whole after join_online_reductions");
  CudaKernel kernels[] = {once, {c.kernel, once.schedule}};
  kernels[1].kernel.name = "two_loops";
  const auto program = CudaProgram::compile({kernels[0], kernels[1]});
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<double> off[2];
  for (int k : {0, 1}) {
    Memory memory(c.data);
    ASSERT_EQ((*program)->run(kernels[k], memory.pointers.data(), c.sizes, 0), "");
    off[k] = variances_off(c, memory.bytes());
  }
  for (size_t i = 0; i < kRows; ++i) {
    std::printf("row %zu: variance off by %.2g, in two loops by %.2g\n", i, off[0][i], off[1][i]);
    EXPECT_LE(off[0][i], std::max(off[1][i], 0x1p-22)) << i;
  }
}

// ---- planted faults ----

struct Planted {
  const char* what;
  int text;
  int64_t m;
  const char *from, *to;
};

TEST(Online, PlantedFaultsAreFound) {
  const Planted faults[] = {
      {"nothing", 0, 1000, "", ""},
      {"sums that stay where they were", 0, 1000, "      a8 = tn_mul(a8, scale3);\n", ""},
      {"sums of threads that stay where they were", 0, 1000, "\n    a8 = tn_mul(a8, scale3);\n", "\n"},
      {"-inf less -inf before the first number", 0, 1000, "tn_base(most3)", "most3"},
      {"rows of -inf that add up to 0", 3, 1000, "if (s1 > 0) v11", "if (false) v11"},
      {"rows of nothing that add up to NaN", 3, 0, "if (s1 > 0) v11", "v11"},
      {"the maximum of the vector before", 0, 1000, "a3 = most3;", ""},
      {"squares about a thread's own mean", 4, 1000, "tn_squares_about(mean5, ", "tn_squares_about(from5, "},
      {"numbers that are not counted", 4, 1000, "seen5 += 4;", "seen5 += 1;"},
  };
  for (const Planted& f : faults) {
    const KernelCase c = online_case(kOnlineTexts[f.text], DType::f32, kKinds, f.m, row_of);
    check_fault({c, online_kernel(c)}, f.what, planted(f.from, f.to), distance);
  }
}

}  // namespace
}  // namespace tenon::jit
