// Compares CUDA text on the host (tests/support/nvidia/cuda_host.h) with the interpreter: random kernels bit for bit, and kernels of real
// groups in every type, length and alignment. Also plants faults in the text, which the host must find.
#include <gtest/gtest.h>

#include <map>

#include "jit/analysis/transposing.h"
#include "jit/kernel/walk.h"
#include "tests/support/nvidia/cuda_check.h"
#include "tests/support/nvidia/cuda_kernels.h"
#include "tests/support/nvidia/cuda_variant.h"
#include "tests/support/sanitized.h"

namespace tenon::jit {
namespace {

// Random kernels, with every schedule whose sums have the order of the interpreter with some number of lanes.
TEST(EmitCuda, RandomKernelsAgree) {
  const char* first_text = std::getenv("TENON_TEST_SEED");
  const char* count_text = std::getenv("TENON_TEST_KERNELS");
  const int64_t first = first_text ? std::atoll(first_text) : 1,
                count = count_text ? std::atoll(count_text) : 60;
  std::vector<CudaTry> tries;
  int rows = 0, vectors = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    KernelCase c = random_kernel(static_cast<uint64_t>(seed));
    each_stmt(c.kernel.body, [](Stmt& s) { s.unroll = 1; });
    expand_math(c.kernel);
    CudaSchedule plain;
    plain.locals = has_locals(c.kernel) ? CudaSchedule::Locals::global : CudaSchedule::Locals::none;
    plain.whole = true;
    plain.wide = seed % 2;
    auto add = [&](const Kernel& variant, const CudaSchedule& s, int lanes, const char* suffix) {
      Kernel k = variant;
      k.name = "TENON_TEST_SEED_" + std::to_string(seed) + suffix;
      tries.push_back({c, {k, s}});
      tries.back().lanes = lanes;
    };
    add(c.kernel, plain, 1, "_plain");
    const KernelVariant v = variant_of(c.kernel, c.sizes, {});
    CudaSchedule own = v.schedule;
    own.approximate = false;
    if (own.form == CudaSchedule::Form::flat) {
      if (is_map(*v.kernel)) own.ahead = 1 << seed % 4;
      if (is_map(*v.kernel) && merge_map(*v.kernel))
        own.outer = static_cast<unsigned>(seed) % (1u << (v.kernel->body[0].axes.size() - 1));
      own.rows = 1;  // keeps the order of sums
      vectors += own.vector > 1;
      add(*v.kernel, own, 1, "_own");
      continue;
    }
    if (own.team > 32 || own.locals == CudaSchedule::Locals::registers) {
      own.team = 8;
      own.block = 64;
      own.locals = has_locals(*v.kernel) ? CudaSchedule::Locals::shared : CudaSchedule::Locals::none;
      own.chunks = 0;
    }
    own.vector = 1;
    own.whole = true;
    ++rows;
    add(*v.kernel, own, own.team, "_team");
  }
  EXPECT_GT(rows, count / 20);
  EXPECT_GT(vectors, count / 30);
  check_tries(tries);
}

// ---- kernels of real groups ----

double element(DType t, const char* p) {
  auto get = [&](auto x) {
    std::memcpy(&x, p, sizeof x);
    return static_cast<double>(x);
  };
  if (t == DType::f64) return get(0.0);
  if (t == DType::f32) return get(0.0f);
  if (t == DType::i64) return get(int64_t{0});
  if (t == DType::i32) return get(int32_t{0});
  if (t == DType::b8) return *p;
  uint16_t x;
  std::memcpy(&x, p, 2);
  return t == DType::bf16 ? bf16_to_f32(x) : f16_to_f32(x);
}

// Returns "" if every element is within the tolerance of its type, which allows for sums of `terms` terms.
std::string distance(const KernelCase& c, const BufferBytes& got, const BufferBytes& want, int64_t terms) {
  for (size_t i = 0; i < got.size(); ++i) {
    const Buffer& b = c.kernel.buffers[i];
    if (b.role != Buffer::Role::out) continue;
    const double unit = b.type == DType::bf16  ? 0x1p-8
                        : b.type == DType::f16 ? 0x1p-10
                        : b.type == DType::f32 ? 0x1p-22
                        : b.type == DType::f64 ? 0x1p-50
                                               : 0,
                 sums = unit == 0              ? 0
                        : b.type == DType::f64 ? 0x1p-52
                                               : 0x1p-23;
    int64_t off = 0;
    for (int64_t e = 0; e < c.lengths[i]; ++e) {
      const double x = element(b.type, got[i].data() + e * size_of(b.type)),
                   y = element(b.type, want[i].data() + e * size_of(b.type));
      if (std::isnan(x) && std::isnan(y)) continue;
      const double tolerance = unit * (1 + std::abs(y)) + sums * 3 * std::sqrt(static_cast<double>(terms));
      if (b.type == DType::b8 && x != y && ++off <= 1 + c.lengths[i] / 1000)
        continue;  // a few booleans may differ, where a value is near the threshold
      if (!(std::abs(x - y) <= tolerance))
        return "%" + b.name + "[" + std::to_string(e) + "] = " + std::to_string(x) + ", " +
               std::to_string(y) + " is wanted";
    }
  }
  return "";
}

const std::vector<DType> kTypes =
    kSanitized ? std::vector{DType::f32, DType::bf16} : std::vector{DType::f32, DType::bf16, DType::f16};

// Kernels with the schedules of their sizes; equal texts are tried once.
std::vector<CudaTry> real_tries(bool approximate) {
  std::vector<CudaTry> tries;
  int next = 0;
  for (const char* text : kCudaTexts)
    for (DType type : kTypes)
      for (const auto& [n, m] : sampled<std::pair<int64_t, int64_t>>({{0, 8},
                                                                      {3, 0},
                                                                      {1, 1},
                                                                      {5, 2},
                                                                      {3, 31},
                                                                      {70, 64},
                                                                      {2, 127},
                                                                      {9, 128},
                                                                      {4, 257},
                                                                      {3, 768},
                                                                      {2, 1021},
                                                                      {2, 4096},
                                                                      {1, 70000},
                                                                      {1, 20011}})) {
        if (m == 0 && std::string_view(text).find("@halved") != std::string_view::npos) continue;
        if (n == 0 && std::string_view(text).find("@sum_parts") != std::string_view::npos) continue;
        if (n == 0 || m == 0) {
          if (type != DType::f32) continue;
        }
        CudaTry t{real_case(text, type, n, m), {}};
        CudaDevice device;
        device.architecture = m == 70000 && type == DType::f32 ? 80 : 90;  // without and with clusters
        t.kernel = variant_of(t.c.kernel, t.c.sizes, device, 16, 1 << 20);
        if (t.kernel.schedule.wide || t.kernel.schedule.approximate != approximate) continue;
        t.kernel.kernel.name += "_" + std::to_string(next++);
        tries.push_back(std::move(t));
      }
  return tries;
}

void check_real(const std::vector<CudaTry>& tries) {
  check_tries(tries, [](const KernelCase& c, const BufferBytes& got, const BufferBytes& want) {
    return distance(c, got, want, std::max(c.sizes[0], c.sizes[1]));
  });
}

TEST(EmitCuda, RealGroupsAgree) {
  std::map<std::string, int> forms;
  for (bool approximate : {false, true}) {
    const std::vector<CudaTry> tries = real_tries(approximate);
    for (const CudaTry& t : tries)
      ++forms[std::string(t.kernel.schedule.form == CudaSchedule::Form::row ? "row" : "flat") + " " +
              std::to_string(static_cast<int>(t.kernel.schedule.locals)) +
              (t.kernel.schedule.cluster > 1 ? " cluster"
               : t.kernel.schedule.team > 32 ? " block"
                                             : "")];
    check_real(tries);
  }
  // Flat maps; rows of parts of a warp and of a block, kept in registers, in shared memory, or not kept.
  for (const char* form : {"flat 0", "row 1", "row 1 block", "row 1 cluster", "row 3 block"})
    EXPECT_GT(forms[form], 0) << form;
}

// Other cases of plans: f64 and integers, pointers of every alignment, indices of 64 bits.
TEST(EmitCuda, RealGroupsOfOtherTypesAndAlignments) {
  const auto sizes = sampled<std::pair<int64_t, int64_t>>(
      {{1, 1}, {5, 2}, {3, 31}, {9, 128}, {2, 1021}, {1, 20011}, {2, 4096}});
  std::map<int, int> vectors;  // by alignment, of the tensors' type
  for (const auto& [approximate, wide] :
       {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    std::vector<CudaTry> tries;
    auto add = [&](const char* text, DType type, int64_t n, int64_t m, int64_t alignment) {
      CudaTry t{real_case(text, type, n, m), {}};
      for (const Buffer& b : t.c.kernel.buffers)
        if (b.role != Buffer::Role::local && size_of(b.type) > alignment) return;
      t.kernel = variant_of(t.c.kernel, t.c.sizes, {}, alignment, wide ? -1 : 1 << 20);
      t.kernel.schedule.wide = wide;
      if (t.kernel.schedule.approximate != approximate) return;
      t.kernel.kernel.name += "_" + std::to_string(tries.size());
      t.shift = alignment < 16 ? static_cast<size_t>(alignment) : 0;
      if (alignment < 16 && t.kernel.schedule.vector > 1) ++vectors[static_cast<int>(alignment)];
      tries.push_back(std::move(t));
    };
    for (const char* text : kCudaTexts) {
      const bool any = std::string_view(text).find("const.") == std::string_view::npos &&
                       std::string_view(text).find("exp") == std::string_view::npos &&
                       std::string_view(text).find("div") == std::string_view::npos;
      for (const auto& [n, m] : sizes) {
        if (!wide) add(text, DType::f64, n, m, 16);
        for (DType type : {DType::i64, DType::i32})
          if (any && !wide) add(text, type, n, m, 16);
        for (DType type : {DType::bf16, DType::f32}) {
          if (wide && (m == 31 || m == 4096)) add(text, type, n, m, 16);
          for (int64_t alignment : {2, 4, 8})
            if (!wide && (m == 128 || m == 1021)) add(text, type, n, m, alignment);
        }
      }
    }
    check_real(tries);
  }
  for (int alignment : {4, 8}) EXPECT_GT(vectors[alignment], 0) << alignment;
}

// Maps in which a thread takes several vectors at once, with lengths that leave several vectors, one or none for the last block.
TEST(EmitCuda, SeveralVectorsOfAMap) {
  for (bool approximate : {false, true}) {
    std::vector<CudaTry> tries;
    for (int text : {2, 6, 7})
      for (DType type : {DType::f32, DType::bf16})
        for (int ahead : {2, 8})
          for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{
                   {0, 8}, {1, 1}, {3, 31}, {2, 127}, {9, 128}, {5, 1021}, {3, 4096}}) {
            CudaTry t{real_case(kCudaTexts[text], type, n, m), {}};
            t.kernel = variant_of(t.c.kernel, t.c.sizes, {}, 16, 1 << 20);
            if (t.kernel.schedule.approximate != approximate) continue;
            ASSERT_TRUE(is_map(t.c.kernel));
            t.kernel.schedule.ahead = ahead;
            t.kernel.kernel.name += "_" + std::to_string(tries.size());
            tries.push_back(std::move(t));
          }
    check_real(tries);
  }
}

// ---- planted faults ----

struct Planted {
  const char* what;
  int text;  // index into kCudaTexts
  int64_t n, m;
  const char *from, *to;
  size_t shift;
  int ahead = 0;  // vectors that a thread of a map loads at once
};

TEST(EmitCuda, PlantedFaultsAreFound) {
  const Planted faults[] = {
      {"nothing", 0, 3, 4096, "", "", 0},
      {"no barrier between the warps' sums", 0, 3, 4096, "    __syncthreads();\n", "", 0},
      {"one turn for all sums", 0, 3, 4096, "    turn ^= 1;\n", "", 0},
      {"a barrier for some threads only", 0, 3, 4096, "    __syncthreads();\n    x = mine",
       "    if (lane) __syncthreads();\n    x = mine", 0},
      {"a whole vector stored at the end", 7, 127, 1, "w0, count);", "w0);", 0},
      {"vectors at any address", 2, 4, 64, "", "", 4},
      {"rows behind the last of a column", 4, 3, 16, " + 1 < e", " < e", 0},
      {"the first rows of a column again", 4, 127, 16, "= g1 + u", "= u", 0},
      {"rows behind the last of a shared column", 4, 29, 16, " + 12 < e", " < e", 0},
      {"all threads of a column take the same rows", 4, 45, 16, " + row;", ";", 0},
      {"no barrier before the threads of a column meet", 4, 45, 16, "    __syncthreads();\n    if (row < d)",
       "    if (row < d)", 0},
      {"every thread of a column leaves its sum", 4, 45, 18, "if (row == 0 && ", "if (", 0},
      {"threads of a column go on with their own sums", 10, 45, 16, "if (!All) return;", "return;", 0},
      {"no barrier before the threads of a column take the sum", 10, 45, 16,
       "  __syncthreads();\n#pragma unroll\n  for (int v = 0; v < N; ++v) x[v] = all[v * T + threadIdx.x %",
       "#pragma unroll\n  for (int v = 0; v < N; ++v) x[v] = all[v * T + threadIdx.x %", 0},
      {"every part is the first", 8, 1, 4096, " = j0 * 1024 + (tn_ix)c", " = (tn_ix)c", 0},
      {"elements behind the last part", 8, 1, 4090, "(tn_ix)(s1))", "(tn_ix)(s1 + 8))", 0},
      {"vectors behind the last of a map", 7, 1808, 1, "if (at < total)", "if (true)", 0, 2},
      {"the first vector of a map again", 7, 1808, 1, "at = first + u * 256", "at = first", 0, 2},
  };
  for (const Planted& f : faults) {
    const KernelCase c = real_case(kCudaTexts[f.text], DType::f32, f.n, f.m);
    CudaTry t{c, variant_of(c.kernel, c.sizes, {}, 16, 1 << 20)};
    if (f.ahead > 0) t.kernel.schedule.ahead = f.ahead;
    t.shift = f.shift;
    check_fault(t, f.what, planted(f.from, f.to),
                [&](const KernelCase& of, const BufferBytes& got, const BufferBytes& want) {
                  return distance(of, got, want, f.m);
                });
  }
}

}  // namespace
}  // namespace tenon::jit
