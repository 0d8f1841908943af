// Tiled kernels (jit/analysis/transposing.h) as CUDA text on the host: compared with the interpreter bit for bit, for every type,
// sizes with any tail and tiles of any shape; and with faults planted in the text.
#include <gtest/gtest.h>

#include <array>

#include "jit/analysis/transposing.h"
#include "tests/support/nvidia/cuda_check.h"
#include "tests/support/nvidia/cuda_transposing.h"
#include "tests/support/nvidia/cuda_variant.h"

namespace tenon::jit {
namespace {

CudaDevice one_multiprocessor() {
  CudaDevice d;
  d.multiprocessors = 1;
  return d;
}

CudaSchedule tiles_of(int along, int across, int vector, bool whole, bool wide) {
  CudaSchedule s;
  s.form = CudaSchedule::Form::tiled;
  s.team = s.block;
  s.along = along;
  s.across = across;
  s.vector = vector;
  s.whole = whole;
  s.wide = wide;
  return s;
}

// Uses the schedule of the sizes if it has tiles, otherwise small tiles.
TEST(EmitCudaTiles, EveryTypeAndSize) {
  const DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2,
                         DType::i64, DType::i32, DType::i16, DType::i8,   DType::u8,       DType::b8};
  struct Sizes {
    int64_t b, n, m;
  };
  const Sizes all[] = {{1, 1, 1},   {2, 0, 5},    {1, 5, 0},   {0, 4, 4},     {3, 1, 40},
                       {2, 37, 1},  {2, 31, 33},  {1, 64, 64}, {1, 128, 132}, {2, 67, 61},
                       {3, 96, 40}, {1, 257, 12}, {1, 8, 300}, {1, 130, 254}};
  std::vector<CudaTry> tries;
  std::map<std::string, int> seen;
  int next = 0;
  for (const char* text : kTransposingTexts)
    for (DType type : types)
      for (const Sizes& z : all) {
        // Tries all sizes of some types, and all types of some sizes.
        const bool all_sizes = type == DType::f32 || type == DType::bf16 || type == DType::u8;
        if ((next + static_cast<int>(type)) % 3 != 0 && !all_sizes) {
          ++next;
          continue;
        }
        CudaTry t{transposing_case(text, type, z.b, z.n, z.m), {}, one_multiprocessor()};
        CudaKernel k = variant_of(t.c.kernel, t.c.sizes, one_multiprocessor());
        CudaSchedule& s = k.schedule;
        if (s.form != CudaSchedule::Form::tiled)
          k = {*merge_map(t.c.kernel), tiles_of(32, 16, 1, true, false)};
        s.approximate = false;
        s.wide = next % 5 == 0;
        ++seen[describe(s)];
        t.kernel = k;
        t.kernel.kernel.name += "_" + std::to_string(next++);
        tries.push_back(std::move(t));
      }
  check_tries(tries);
  for (const char* words :
       {"tiled 64x64 vector 2 whole", "tiled 32x32 vector 1 whole", "tiled 64x64 vector 4 whole"})
    EXPECT_GT(seen[words], 0) << words;
  for (const auto& [words, count] : seen) std::printf("%4d %s\n", count, words.c_str());
}

TEST(EmitCudaTiles, TilesOfAnyShape) {
  std::vector<CudaTry> tries;
  int next = 0;
  for (const auto& [along, across] :
       std::vector<std::pair<int, int>>{{8, 256}, {256, 8}, {16, 128}, {64, 32}, {32, 64}, {128, 16}})
    for (const char* text : kTransposingTexts)
      for (int vector : {1, 2}) {
        CudaTry t{transposing_case(text, DType::i16, 2, vector * 35, vector * 67), {}, one_multiprocessor()};
        t.kernel = {*merge_map(t.c.kernel), tiles_of(along, across, vector, true, false)};
        t.kernel.kernel.name += "_" + std::to_string(next++);
        tries.push_back(std::move(t));
      }
  check_tries(tries);
}

// Maps of few long rows, whose inner loop becomes part of the par nest.
TEST(EmitCudaTiles, MergedMaps) {
  std::vector<CudaTry> tries;
  int next = 0;
  for (const char* text : kTransposingTexts)
    for (const auto& [n, m, vector] : std::vector<std::array<int64_t, 3>>{
             {1, 1, 1}, {3, 1001, 1}, {0, 7, 1}, {5, 0, 1}, {2, 1024, 4}, {1, 259, 1}}) {
      CudaTry t{transposing_case(text, DType::i32, 2, n, m), {}, one_multiprocessor()};
      CudaSchedule s;
      s.vector = static_cast<int>(vector);
      s.ahead = next % 3 == 2 ? 4 : 1;
      s.whole = true;
      t.kernel = {*merge_map(t.c.kernel), s};
      t.kernel.kernel.name += "_" + std::to_string(next++);
      tries.push_back(std::move(t));
    }
  check_tries(tries);
}

TEST(EmitCudaTiles, RandomMaps) {
  std::vector<CudaTry> tries;
  for (uint64_t seed = 1; seed < 4000 && tries.size() < 40; ++seed) {
    KernelCase c = random_kernel(seed);
    if (!transposing_map(c.kernel)) continue;
    expand_math(c.kernel);
    CudaTry t{c, {c.kernel, tiles_of(seed % 2 ? 16 : 32, 16, 1, true, seed % 3 == 0)}, one_multiprocessor()};
    t.kernel.kernel.name = "k" + std::to_string(seed);
    tries.push_back(std::move(t));
  }
  EXPECT_GE(tries.size(), 10u);
  check_tries(tries);
}

// ---- planted faults ----

struct TileFault {
  const char* what;
  int text;  // index into kTransposingTexts
  int at;    // which occurrence is replaced; -1: all
  const char *from, *to;
  size_t shift = 0;
};

TEST(EmitCudaTiles, PlantedFaultsAreFound) {
  const TileFault faults[] = {
      {"nothing", 0, 0, "", ""},
      {"no barrier before the tile is read", 0, 0, "    __syncthreads();\n", ""},
      {"no barrier before the next tile is written", 0, 1, "    __syncthreads();\n", ""},
      {"no barrier before a turned output is written", 2, 0, "    __syncthreads();\n", ""},
      {"no barrier before the next turned output", 2, 1, "    __syncthreads();\n", ""},
      {"rows beyond the end", 0, -1, " < s1", " < s1 + 2"},
      {"columns beyond the end", 2, -1, " < s2", " < s2 + 2"},
      {"a tile that is not turned", 0, -1, " + v) * 65 + row]", " + v) + row * 65]"},
      {"vectors at any address", 0, 0, "", "", 2},
  };
  for (const TileFault& f : faults) {
    const KernelCase c = transposing_case(kTransposingTexts[f.text], DType::i16, 1, 130, 132);
    // One block processes several tiles, so that tiles reuse its shared memory.
    CudaTry t{c, variant_of(c.kernel, c.sizes, one_multiprocessor()), one_multiprocessor(), 1, f.shift};
    ASSERT_EQ(describe(t.kernel.schedule), "tiled 64x64 vector 2 whole");
    check_fault(t, f.what, [&](std::string& text) {
      const size_t begin = text.find("extern \"C\" __global__");
      std::string kernel = text.substr(begin);
      if (f.at >= 0 && *f.from) {
        size_t at = 0;
        for (int i = 0; i <= f.at; ++i) at = kernel.find(f.from, i ? at + 1 : 0);
        ASSERT_NE(at, kernel.npos);
        kernel.replace(at, std::strlen(f.from), f.to);
      } else {
        planted(f.from, f.to)(kernel);
      }
      text.replace(begin, text.npos, kernel);
    });
  }
}

}  // namespace
}  // namespace tenon::jit
