// Maps in which a thread runs along some axes and keeps operands that do not change (jit/schedule/cuda_maps.h), as CUDA text on the
// host: compared with the interpreter bit for bit, for every choice of axes and sizes with any tail; and with faults planted in
// the text.
#include <gtest/gtest.h>

#include "jit/analysis/transposing.h"
#include "jit/schedule/cuda_maps.h"
#include "tests/support/nvidia/cuda_broadcast.h"
#include "tests/support/nvidia/cuda_check.h"
#include "tests/support/nvidia/cuda_variant.h"

namespace tenon::jit {
namespace {

CudaKernel along(const KernelCase& c, unsigned outer, int ahead) {
  CudaKernel k = variant_of(*merge_map(c.kernel), c.sizes, {}, 16, 1 << 20);
  k.schedule.approximate = false;
  k.schedule.outer = outer;
  k.schedule.ahead = ahead;
  return k;
}

TEST(EmitCudaMaps, AlongEveryChoiceOfAxes) {
  struct Sizes {
    int64_t n, c, w;
  };
  const Sizes all[] = {{0, 3, 8},   {3, 0, 8},   {3, 2, 0},    {1, 1, 1},   {4, 3, 64},   {3, 5, 31},
                       {7, 13, 17}, {5, 2, 128}, {1, 9, 1021}, {19, 1, 24}, {2, 3, 2056}, {65, 2, 6}};
  std::vector<CudaTry> tries;
  int together = 0, alone = 0;
  for (const char* text : kBroadcastTexts)
    for (DType type : {DType::f32, DType::bf16, DType::f16})
      for (const Sizes& z : all) {
        const size_t number = tries.size();
        if (type == DType::f16 && number % 3 != 0) continue;
        const KernelCase c = broadcast_case(text, type, z.n, z.c, z.w);
        const Kernel map = *merge_map(c.kernel);
        for (unsigned outer = 0; outer < 1u << (map.body[0].axes.size() - 1); ++outer) {
          // One block, whose threads process many rows, or as many blocks as there are rows for.
          const int ahead = 1 << tries.size() % 3;
          CudaTry t{c, along(c, outer, ahead), {}, tries.size() % 2 ? 1 : INT64_MAX};
          if (outer == 0) t.kernel = variant_of(c.kernel, c.sizes, {}, 16, 1 << 20);
          t.kernel.schedule.approximate = false;
          const RowsOfMap r = rows_of_map(map, c.sizes, outer, t.kernel.schedule.vector);
          if (t.most_blocks == 1) ++(r.columns > 128 ? alone : together);
          t.kernel.kernel.name += "_" + std::to_string(tries.size());
          tries.push_back(std::move(t));
        }
      }
  EXPECT_GT(together, 50);
  EXPECT_GT(alone, 10);
  check_tries(tries);
}

struct RowsFault {
  const char* what;
  unsigned outer;
  int ahead;
  const char *from, *to;
};

TEST(EmitCudaMaps, PlantedFaultsAreFound) {
  const RowsFault faults[] = {
      {"nothing", 1, 2, "", ""},
      {"rows behind the last", 1, 2, "if (row < rows)", "if (true)"},
      {"the first row again", 1, 2, "first + u * together", "first"},
      {"every thread begins with the first row", 1, 1, "row = task / columns", "row = 0"},
      {"columns of which there are none", 1, 1, "task % columns", "task"},
      {"rows of two axes taken for those of one", 3, 1, "rest /= n1;", ""},
      {"a bias that is not the column's", 1, 1, "p1 + (j", "p1 + (0 * j"},
  };
  for (const RowsFault& f : faults) {
    const KernelCase c =
        broadcast_case(kBroadcastTexts[2], DType::f32, 9, 2, 8);  // small, so faulty addresses stay near
    check_fault({c, along(c, f.outer, f.ahead), {}, 1}, f.what, planted(f.from, f.to));
  }
}

}  // namespace
}  // namespace tenon::jit
