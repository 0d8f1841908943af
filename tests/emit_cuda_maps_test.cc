// Maps of which a thread goes along some axes and keeps what stays the same (jit/cuda_maps.h), as CUDA text on the host,
// against the interpreter bit for bit: along every choice of axes, sizes with any tail, and faults planted in the text.
#include <gtest/gtest.h>

#include "jit/cuda_maps.h"
#include "jit/transposing.h"
#include "tests/cuda_broadcast.h"
#include "tests/cuda_memory.h"
#include "tests/cuda_run.h"

namespace tenon::jit {
namespace {

CudaSchedule along(const KernelCase& c, unsigned outer, int ahead) {
  CudaSchedule s = cuda_schedule(*merged_map(c.kernel), c.sizes, {}, 16, 1 << 20);
  s.merged = !c.kernel.body[0].simd;
  s.approximate = false;
  s.outer = outer;
  s.ahead = ahead;
  return s;
}

struct RowsTry {
  KernelCase c;
  CudaKernel kernel;
  int64_t blocks;
};

TEST(EmitCudaMaps, AlongEveryChoiceOfAxes) {
  struct Sizes {
    int64_t n, c, w;
  };
  const Sizes all[] = {{0, 3, 8},   {3, 0, 8},   {3, 2, 0},    {1, 1, 1},   {4, 3, 64},   {3, 5, 31},
                       {7, 13, 17}, {5, 2, 128}, {1, 9, 1021}, {19, 1, 24}, {2, 3, 2056}, {65, 2, 6}};
  std::vector<RowsTry> tries;
  int together = 0, alone = 0;
  for (const char* text : kBroadcastTexts)
    for (DType type : {DType::f32, DType::bf16, DType::f16})
      for (const Sizes& z : all) {
        const size_t number = tries.size();
        if (type == DType::f16 && number % 3 != 0) continue;
        const KernelCase c = broadcast_case(text, type, z.n, z.c, z.w);
        const Kernel map = *merged_map(c.kernel);
        for (unsigned outer = 0; outer < 1u << (map.body[0].axes.size() - 1); ++outer) {
          // One block, whose threads go through many rows, or as many as there are rows for.
          const int ahead = 1 << tries.size() % 3;
          RowsTry t{c, {c.kernel, along(c, outer, ahead)}, tries.size() % 2 ? 1 : INT64_MAX};
          if (outer == 0) t.kernel.schedule = cuda_schedule(c.kernel, c.sizes, {}, 16, 1 << 20);
          t.kernel.schedule.approximate = false;
          const RowsOfMap r = rows_of_map(map, c.sizes, outer, t.kernel.schedule.vector);
          if (t.blocks == 1) ++(r.columns > 128 ? alone : together);
          t.kernel.kernel.name += "_" + std::to_string(tries.size());
          tries.push_back(std::move(t));
        }
      }
  EXPECT_GT(together, 50);
  EXPECT_GT(alone, 10);
  std::vector<CudaKernel> kernels;
  for (const RowsTry& t : tries) kernels.push_back(t.kernel);
  auto program = CudaProgram::compile(kernels);
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (const RowsTry& t : tries) {
    std::string sizes;
    for (int64_t n : t.c.sizes) sizes += " " + std::to_string(n);
    SCOPED_TRACE(t.kernel.kernel.name + sizes + ": " + describe(t.kernel.schedule));
    BufferBytes want = t.c.data;
    ASSERT_TRUE(interpret(t.c.kernel, views(t.c, want), t.c.sizes, 1).ok());
    for (int order : kThreadOrders) {
      Memory memory(t.c.data);
      ASSERT_EQ((*program)->run(t.kernel, memory.pointers.data(), t.c.sizes, order, {}, t.blocks), "");
      ASSERT_TRUE(memory.intact()) << "written beside a buffer";
      ASSERT_EQ(first_difference(t.c, memory.bytes(), want), "")
          << emit_cuda(t.kernel.kernel, t.kernel.schedule);
    }
  }
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
    SCOPED_TRACE(f.what);
    const KernelCase c = broadcast_case(kBroadcastTexts[2], DType::f32, 9, 2, 8);  // faults stay near

    const CudaKernel k{c.kernel, along(c, f.outer, f.ahead)};
    bool planted = !*f.from;
    auto program = CudaProgram::compile({k}, [&](std::string& text) {
      const size_t length = std::strlen(f.from);
      for (size_t at = 0; length && (at = text.find(f.from, at)) != text.npos; planted = true) {
        text.replace(at, length, f.to);
        at += std::strlen(f.to);
      }
    });
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_TRUE(planted);
    BufferBytes want = c.data;
    ASSERT_TRUE(interpret(c.kernel, views(c, want), c.sizes).ok());
    std::string found;
    for (int order : kThreadOrders) {
      Memory memory(c.data);
      const std::string error = (*program)->run(k, memory.pointers.data(), c.sizes, order, {}, 1);
      found += error + (memory.intact() ? "" : "written beside a buffer ") +
               first_difference(c, memory.bytes(), want);
    }
    EXPECT_EQ(!found.empty(), std::strcmp(f.what, "nothing") != 0) << found;
  }
}

}  // namespace
}  // namespace tenon::jit
