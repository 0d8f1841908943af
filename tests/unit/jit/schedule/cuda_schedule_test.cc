// Schedules of kernels for a GPU as text, over lengths, types and devices, and the resources of launches. No device is needed.
#include "jit/schedule/cuda_schedule.h"
#include "tests/support/nvidia/cuda_variant.h"

#include <gtest/gtest.h>

#include "tests/support/nvidia/cuda_broadcast.h"
#include "tests/support/nvidia/cuda_devices.h"
#include "tests/support/nvidia/cuda_kernels.h"
#include "tests/support/nvidia/cuda_online.h"
#include "tests/support/nvidia/cuda_transposing.h"

namespace tenon::jit {
namespace {

struct Expected {
  int text;
  DType type;
  int64_t n, m;
  const char* device;
  const char* words;
};

TEST(CudaSchedule, Words) {
  const Expected all[] = {
      {0, DType::f32, 8, 8, "H100", "row 2x128 vector 4 registers 1 whole"},
      {0, DType::bf16, 16384, 1024, "H100", "row 32x8 vector 8 registers 4 whole approximate"},
      {0, DType::bf16, 16384, 4096, "H100", "row 128x1 vector 8 resident 8 registers 4 whole approximate"},
      {0, DType::bf16, 16384, 8192, "H100", "row 256x1 vector 8 resident 4 registers 4 whole approximate"},
      {0, DType::bf16, 16384, 16384, "H100", "row 512x1 vector 8 resident 2 registers 4 whole approximate"},
      {0, DType::bf16, 8192, 32768, "H100", "row 1024x1 vector 8 registers 4 whole approximate"},
      {0, DType::f32, 8192, 65536, "H100", "row 512x1 vector 4 resident 2 cluster 8 registers 4 whole"},
      {0, DType::f32, 8192, 65536, "H200", "row 512x1 vector 4 resident 2 cluster 8 registers 4 whole"},
      {0, DType::f32, 8192, 65536, "A100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {0, DType::f32, 8192, 65536, "RTX 4090", "row 1024x1 vector 4 whole after join_online_reductions"},
      {0, DType::bf16, 2048, 131072, "H100",
       "row 512x1 vector 8 resident 2 cluster 8 registers 4 whole approximate"},
      {0, DType::bf16, 2048, 262144, "H100", "row 1024x1 vector 8 cluster 8 registers 4 whole approximate"},
      {0, DType::bf16, 2048, 262143, "H200", "row 1024x1 vector 1 cluster 8 shared whole approximate"},
      {0, DType::f32, 16, 1 << 20, "H100",
       "row 1024x1 vector 4 cluster 8 whole after join_online_reductions"},
      {1, DType::f32, 4096, 65536, "H100", "row 256x1 vector 4 resident 4 cluster 8 registers 8 whole"},
      {1, DType::f32, 4096, 65536, "A100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {1, DType::bf16, 4096, 1 << 20, "H100",
       "row 1024x1 vector 8 whole wide approximate after join_online_reductions"},
      {0, DType::f32, 128, 50000, "H100", "row 1024x1 vector 4 shared whole"},
      {0, DType::f32, 128, 57856, "H100", "row 1024x1 vector 4 shared whole"},
      {0, DType::f32, 128, 58112, "H100", "row 512x1 vector 4 resident 2 cluster 8 registers 4 whole"},
      {0, DType::f32, 128, 50000, "RTX 4090", "row 1024x1 vector 4 whole after join_online_reductions"},
      {0, DType::f32, 128, 50000, "A100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {0, DType::f32, 131072, 128, "H100", "row 32x8 vector 4 registers 1 whole"},
      {0, DType::f32, 16, 1, "H100", "flat 1x256 vector 1 global"},
      {0, DType::f32, 0, 64, "H100", "row 16x16 vector 4 registers 1 whole"},
      {1, DType::bf16, 16384, 4096, "H100", "row 128x1 vector 8 registers 4 whole approximate"},
      {1, DType::bf16, 8192, 8192, "A100", "row 256x1 vector 8 registers 4 whole approximate"},
      {1, DType::f32, 4096, 1023, "H100", "row 256x1 vector 1 registers 4 whole"},
      {2, DType::f32, 8192, 8192, "H100", "flat 1x256 vector 4 outer 0 whole"},
      {2, DType::f32, 8192, 8192, "H200", "flat 1x256 vector 4 outer 0 ahead 2 whole"},
      {2, DType::bf16, 8192, 8190, "H100", "flat 1x256 vector 2 outer 0 ahead 4 whole"},
      {2, DType::bf16, 8192, 8191, "H200", "flat 1x256 vector 1 outer 0 ahead 8 whole"},
      {3, DType::f16, 512, 768, "H100", "flat 1x128 vector 8 ahead 2 whole approximate"},
      {4, DType::f32, 16384, 4096, "H100", "flat 1x256 vector 4 rows 32 ahead 8 whole"},
      {4, DType::f32, 16384, 4096, "H200", "flat 1x256 vector 4 rows 32 ahead 8 whole"},
      {4, DType::bf16, 16384, 768, "H200", "flat 1x256 vector 2 rows 32 ahead 16 whole approximate"},
      {4, DType::f32, 100, 65536, "A100", "flat 1x256 vector 4 rows 2 ahead 8 whole"},
      {4, DType::f32, 40, 4096, "RTX 4090", "flat 1x256 vector 2 rows 8 ahead 4 whole"},
      {4, DType::f32, 7, 4096, "H200", "flat 1x64 vector 1 ahead 4 whole"},
      {4, DType::bf16, 1000, 1 << 20, "A100", "flat 1x256 vector 8 ahead 8 whole approximate"},
      {4, DType::f32, 3, 1 << 20, "RTX 4090", "flat 1x256 vector 4 ahead 2 whole"},
      {4, DType::f32, 1, 1 << 20, "RTX 4090", "flat 1x256 vector 4 whole"},
      {10, DType::bf16, 16384, 4096, "H100", "flat 1x256 vector 4 rows 32 ahead 16 whole approximate"},
      {5, DType::f32, 128, 128, "H100", "flat 1x256 vector 1"},
      {6, DType::f32, 64, 64, "H100", "flat 1x256 vector 4 whole"},
      {7, DType::bf16, 1001, 1, "H100", "flat 1x256 vector 8 approximate"},
      {8, DType::f32, 1, 1 << 20, "H100", "row 128x1 vector 4 registers 2 whole"},
      {8, DType::bf16, 1, 1 << 20, "H100", "row 128x1 vector 8 registers 1 whole approximate"},
      {8, DType::bf16, 1, 1 << 22, "H100", "row 32x8 vector 8 registers 4 whole approximate"},
      {8, DType::f32, 1, (1 << 20) + 1, "A100", "row 128x1 vector 4 registers 2"},
      {8, DType::f32, 1, 100, "RTX 4090", "row 32x8 vector 4 registers 1 whole"},
      {9, DType::bf16, 2048, 768, "H200", "row 128x1 vector 8 resident 8 registers 1 whole approximate"},
      {9, DType::bf16, 16384, 4096, "H100", "row 256x1 vector 8 resident 4 registers 2 whole approximate"},
      {9, DType::f32, 8192, 1024, "A100", "row 128x1 vector 4 resident 8 registers 2 whole"},
      {9, DType::f32, 4096, 20000, "RTX 4090", "row 1024x1 vector 4 shared whole"},
      {7, DType::bf16, 1 << 25, 1, "H200", "flat 1x256 vector 8 whole approximate"},
      {7, DType::bf16, 1 << 26, 1, "H200", "flat 1x256 vector 8 ahead 2 whole approximate"},
      {7, DType::bf16, (1 << 26) + 1, 1, "H200", "flat 1x256 vector 8 ahead 2 approximate"},
      {7, DType::bf16, 1 << 26, 1, "H100", "flat 1x256 vector 8 whole approximate"},
      {7, DType::f32, 1 << 28, 1, "A100", "flat 1x256 vector 4 whole"},
      {7, DType::f32, 1 << 28, 1, "RTX 4090", "flat 1x256 vector 4 whole"},
  };
  for (const Expected& e : all) {
    const KernelCase c = real_case(kCudaTexts[e.text], e.type, 2, 2);
    const std::vector<int64_t> sizes{e.n, e.m};
    const KernelVariant v = variant_of(c.kernel, sizes, cuda_device(e.device), 16, 1 << 20);
    EXPECT_EQ(describe(v), e.words) << c.kernel.name << " " << name(e.type) << " " << e.n << "x" << e.m << " "
                                    << e.device;
    const CudaLaunch& l = v.launch;
    EXPECT_LE(l.threads, 1024);
    EXPECT_EQ(l.threads % 32, 0);
    EXPECT_LE(l.shared_bytes + 528, cuda_device(e.device).shared_bytes);  // 528: the slots of folds
    EXPECT_EQ(l.blocks == 0, e.n * e.m == 0);
    EXPECT_EQ(l.cluster, v.schedule.cluster);
    EXPECT_EQ(l.blocks % v.schedule.cluster, 0);
  }
}

// Rows that nothing keeps: values that can be computed again are, and a sum joins the fold that it follows. The numbers that remain
// may then fit into the registers of a block or a cluster. Shared memory is preferred.
TEST(CudaSchedule, RowsThatNothingKeeps) {
  const Expected all[] = {
      {0, DType::f32, 132, 300000, "H100", "row 1024x1 vector 4 cluster 8 shared whole"},
      {0, DType::f32, 132, 1 << 20, "H100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {0, DType::bf16, 132, 300000, "H100", "row 1024x1 vector 8 cluster 8 shared whole approximate"},
      {0, DType::bf16, 132, 1 << 20, "H100",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {1, DType::f32, 132, 300000, "H100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {1, DType::f32, 132, 1 << 20, "H100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {1, DType::bf16, 132, 300000, "H100", "row 1024x1 vector 8 cluster 8 registers 5 whole approximate"},
      {1, DType::bf16, 132, 1 << 20, "H100",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {2, DType::f32, 132, 300000, "H100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {2, DType::f32, 132, 1 << 20, "H100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {2, DType::bf16, 132, 300000, "H100",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {2, DType::bf16, 528, 32768, "H100",
       "row 512x1 vector 8 whole approximate after join_online_reductions"},
      {2, DType::bf16, 1056, 32768, "H100",
       "row 256x1 vector 8 whole approximate after join_online_reductions"},
      {2, DType::bf16, 132, 1 << 20, "H100",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {4, DType::f32, 132, 300000, "H100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {4, DType::f32, 132, 1 << 20, "H100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {4, DType::bf16, 132, 300000, "H100", "row 1024x1 vector 8 cluster 8 registers 5 whole approximate"},
      {4, DType::bf16, 132, 1 << 20, "H100",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {0, DType::f32, 132, 1 << 20, "H200", "row 1024x1 vector 4 whole after join_online_reductions"},
      {4, DType::f32, 132, 1 << 20, "H200", "row 1024x1 vector 4 whole after join_online_reductions"},
      {0, DType::f32, 132, 300000, "A100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {0, DType::bf16, 132, 300000, "A100",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {4, DType::f32, 132, 300000, "A100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {4, DType::bf16, 132, 300000, "A100",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {0, DType::f32, 132, 300000, "RTX 4090", "row 1024x1 vector 4 whole after join_online_reductions"},
      {0, DType::bf16, 132, 300000, "RTX 4090",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {1, DType::f32, 132, 300000, "RTX 4090", "row 1024x1 vector 4 whole after join_online_reductions"},
      {1, DType::bf16, 132, 300000, "RTX 4090",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {2, DType::f32, 132, 300000, "RTX 4090", "row 1024x1 vector 4 whole after join_online_reductions"},
      {2, DType::bf16, 132, 300000, "RTX 4090",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {4, DType::f32, 132, 300000, "RTX 4090", "row 1024x1 vector 4 whole after join_online_reductions"},
      {4, DType::bf16, 132, 300000, "RTX 4090",
       "row 1024x1 vector 8 whole approximate after join_online_reductions"},
      {0, DType::f32, 132, 32768, "RTX 4090",
       "row 1024x1 vector 4 registers 8 whole after join_online_reductions"},
      {0, DType::bf16, 132, 1 << 19, "H100",
       "row 1024x1 vector 8 cluster 8 registers 8 whole approximate after join_online_reductions"},
      {5, DType::f32, 132, 1 << 16, "A100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {5, DType::f32, 132, 300, "H100", "row 128x1 vector 4 whole after join_online_reductions"},
      {0, DType::f32, 4, 1 << 20, "H100", "row 1024x1 vector 4 cluster 8 whole after join_online_reductions"},
      {0, DType::f32, 16, 1 << 20, "H200",
       "row 1024x1 vector 4 cluster 8 whole after join_online_reductions"},
      {0, DType::f32, 17, 1 << 20, "H100",
       "row 1024x1 vector 4 cluster 4 whole after join_online_reductions"},
      {2, DType::bf16, 66, 1 << 20, "H100",
       "row 1024x1 vector 8 cluster 2 whole approximate after join_online_reductions"},
      {4, DType::f32, 67, 1 << 20, "H100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {4, DType::f32, 4, 300000, "H100", "row 1024x1 vector 4 cluster 8 whole after join_online_reductions"},
      {0, DType::f32, 4, 1 << 20, "A100", "row 1024x1 vector 4 whole after join_online_reductions"},
      {0, DType::f32, 4, 1 << 20, "RTX 4090", "row 1024x1 vector 4 whole after join_online_reductions"},
  };
  for (const Expected& e : all) {
    const KernelCase c = online_case(kOnlineTexts[e.text], e.type, 0, 0, {});
    const std::vector<int64_t> sizes{e.n, e.m};
    const KernelVariant v = variant_of(c.kernel, sizes, cuda_device(e.device), 16, 1 << 20);
    EXPECT_EQ(describe(v), e.words) << c.kernel.name << " " << name(e.type) << " " << e.n << "x" << e.m << " "
                                    << e.device;
    const CudaLaunch& l = v.launch;
    EXPECT_EQ(l.scratch_bytes, 0);
    EXPECT_EQ(l.cluster, v.schedule.cluster);
  }
}

// Sums that are carried from row to row cannot be computed again. In global memory they take space only for the blocks that run at
// once, whatever the number of blocks.
TEST(CudaSchedule, RowsInGlobalMemory) {
  const KernelCase c = real_case(kCudaTexts[9], DType::f32, 4, 2);
  constexpr int64_t kRow = 50257;
  for (const auto& [device, at_once] : {std::pair{"A100", 2 * 108}, std::pair{"RTX 4090", 128}})
    for (int level : {0, kMostRelaxed})
      for (int64_t blocks : {3, 8192}) {
        const std::vector<int64_t> sizes{4 * blocks, kRow};
        const KernelVariant v = variant_of(c.kernel, sizes, cuda_device(device), 16, 1 << 20, level);
        EXPECT_EQ(describe(v), "row 1024x1 vector 1 global whole");
        const CudaLaunch& l = v.launch;
        EXPECT_EQ(l.blocks, std::min<int64_t>(blocks, at_once)) << device;
        EXPECT_GE(l.scratch_stride, 4 * kRow);
        EXPECT_LE(l.scratch_bytes, l.blocks * (4 * kRow + 64)) << device;
      }
}

struct ExpectedTiles {
  int text;
  DType type;
  int64_t b, n, m;
  const char* device;
  const char* words;
  int64_t blocks, shared_bytes;
};

// Kernels are tiled if they would read memory with large strides, unless there is little to read or runs are short.
TEST(CudaSchedule, Tiles) {
  const ExpectedTiles all[] = {
      {0, DType::f32, 1, 4096, 4096, "H100", "tiled 64x64 vector 1 whole after merge_map", 4096, 16640},
      {0, DType::bf16, 1, 4096, 4096, "H200", "tiled 64x64 vector 2 whole after merge_map", 4096, 8320},
      {0, DType::bf16, 1, 4096, 4096, "A100", "tiled 64x64 vector 2 whole after merge_map", 4096, 8320},
      {0, DType::bf16, 1, 4095, 4096, "H100", "tiled 64x64 vector 1 whole after merge_map", 4096, 8320},
      {0, DType::i8, 1, 4096, 4096, "H100", "tiled 64x64 vector 4 whole after merge_map", 4096, 4160},
      {0, DType::f64, 1, 4096, 4096, "H100", "tiled 32x32 vector 1 whole after merge_map", 16384, 8448},
      {0, DType::f32, 1, 4096, 4096, "RTX 4090", "tiled 64x64 vector 1 whole after merge_map", 4096, 16640},
      {1, DType::f32, 1, 16384, 16384, "RTX 4090", "tiled 32x32 vector 1 whole after merge_map", 16384, 8448},
      {0, DType::f32, 1, 1024, 1024, "H100", "tiled 32x32 vector 1 whole after merge_map", 1024, 4224},
      {0, DType::f32, 1, 256, 256, "H100", "flat 1x256 vector 4 whole after merge_map", 64, 0},
      {0, DType::f32, 1, 1 << 20, 3, "H100", "row 4x64 vector 1 registers 1 whole", 16384, 0},
      {0, DType::f32, 1, 1 << 20, 12, "H100", "tiled 16x256 vector 1 whole after merge_map", 4096, 16448},
      {2, DType::bf16, 1, 16, 1 << 20, "H100", "tiled 256x16 vector 2 whole after merge_map", 4096, 8704},
      {2, DType::bf16, 1, 12, 1 << 20, "H100", "flat 1x256 vector 8 whole after merge_map", 6144, 0},
      {2, DType::bf16, 1, 12, 1 << 20, "A100", "flat 1x256 vector 8 whole after merge_map", 6144, 0},
      {2, DType::f32, 1, 1 << 20, 7, "H100", "row 8x32 vector 1 registers 1 whole", 16896, 0},
      {3, DType::bf16, 64, 512, 64, "H100", "tiled 64x64 vector 2 whole", 512, 16640},
      {3, DType::bf16, 64, 512, 65, "H100", "tiled 64x64 vector 1 whole", 1024, 16640},
      {4, DType::f16, 12, 512, 512, "H100", "tiled 64x64 vector 2 whole after merge_map", 768, 8320},
  };
  for (const ExpectedTiles& e : all) {
    const KernelCase c = transposing_case(kTransposingTexts[e.text], e.type, e.b, 1, 1);
    std::vector<int64_t> sizes{e.b, e.n, e.m, e.n * e.m, e.b * e.n, e.b * e.m};
    sizes.resize(c.kernel.sizes.size());
    SCOPED_TRACE(c.kernel.name + " " + std::string(name(e.type)) + " " + std::to_string(e.n) + "x" +
                 std::to_string(e.m) + " " + e.device);
    KernelVariant v = variant_of(c.kernel, sizes, cuda_device(e.device));
    v.schedule.approximate = false;
    EXPECT_EQ(describe(v), e.words);
    const CudaLaunch& l = v.launch;
    EXPECT_EQ(l.blocks, e.blocks);
    EXPECT_EQ(l.shared_bytes, e.shared_bytes);
  }
}

struct ExpectedRows {
  int text;
  DType type;
  int64_t n, c, w;
  const char* device;
  const char* words;
  int64_t blocks;
};

// Maps that read operands repeatedly: the axes along which a thread keeps them. Nothing is kept if there are few vectors, if no
// operand is read again, or if teams read it once for several vectors.
TEST(CudaSchedule, RowsOfMaps) {
  const ExpectedRows all[] = {
      {0, DType::bf16, 16384, 1, 8192, "H100", "flat 1x256 vector 8 outer 0 whole after merge_map", 16896},
      {0, DType::bf16, 16384, 1, 8192, "H200", "flat 1x256 vector 8 outer 0 ahead 2 whole after merge_map",
       16896},
      {0, DType::f32, 16384, 1, 8192, "A100", "flat 1x256 vector 4 outer 0 whole after merge_map", 13824},
      {0, DType::f32, 16384, 1, 8192, "RTX 4090", "flat 1x256 vector 4 outer 0 whole after merge_map", 16384},
      {0, DType::bf16, 16384, 1, 8191, "A100", "flat 1x256 vector 1 outer 0 ahead 8 whole after merge_map",
       13824},
      {0, DType::bf16, 2048, 1, 1024, "H100", "flat 1x256 vector 8 whole after merge_map", 1024},
      {0, DType::f32, 2, 1, 1 << 25, "H200", "flat 1x256 vector 4 outer 0 ahead 2 whole after merge_map",
       16896},
      {0, DType::f32, 1, 1, 1 << 25, "H200", "flat 1x256 vector 4 whole after merge_map", 32768},
      {1, DType::bf16, 256, 64, 3136, "H100", "row 128x1 vector 8 registers 4 whole", 16384},
      {1, DType::bf16, 256, 64, 64, "H100", "row 8x32 vector 8 registers 1 whole", 512},
      {1, DType::bf16, 4096, 256, 64, "H100", "flat 1x256 vector 8 outer 0 whole after merge_map", 16896},
      {1, DType::bf16, 4096, 256, 64, "A100", "flat 1x256 vector 8 outer 0 whole after merge_map", 13824},
      {2, DType::bf16, 512, 64, 4096, "H200", "flat 1x256 vector 8 outer 0 ahead 2 whole after merge_map",
       16896},
      {2, DType::bf16, 1, 16384, 4096, "H200", "flat 1x256 vector 8 outer 1 ahead 2 whole after merge_map",
       16384},
      {3, DType::bf16, 64, 2048, 2048, "H100", "flat 1x256 vector 8 outer 1 whole after merge_map", 16896},
      {3, DType::bf16, 2048, 64, 2048, "H100", "flat 1x256 vector 8 outer 1 whole after merge_map", 16896},
      {3, DType::bf16, 64, 65536, 64, "H100", "flat 1x256 vector 8 outer 0 whole after merge_map", 16896},
      {3, DType::f32, 64, 2048, 2048, "A100", "flat 1x256 vector 4 outer 1 whole after merge_map", 13824},
      {4, DType::bf16, 16384, 64, 256, "RTX 4090", "flat 1x256 vector 8 outer 0 whole", 16384},
  };
  for (const ExpectedRows& e : all) {
    const KernelCase c = broadcast_case(kBroadcastTexts[e.text], e.type, 1, 1, 1);
    const std::vector<int64_t> sizes{e.n, e.c, e.w, e.c * e.w, e.n * e.w};
    SCOPED_TRACE(c.kernel.name + " " + std::string(name(e.type)) + " " + std::to_string(e.n) + "x" +
                 std::to_string(e.c) + "x" + std::to_string(e.w) + " " + e.device);
    KernelVariant v = variant_of(c.kernel, sizes, cuda_device(e.device), 16, 1 << 20);
    v.schedule.approximate = false;
    EXPECT_EQ(describe(v), e.words);
    EXPECT_EQ(v.launch.blocks, e.blocks);
    // After registers ran out, a thread keeps nothing.
    EXPECT_EQ(variant_of(c.kernel, sizes, cuda_device(e.device), 16, 1 << 20, 1).schedule.outer, 0u);
  }
}

// Less aligned pointers give narrower vectors, and so do lengths that are no multiples, since their rows are not aligned.
TEST(CudaSchedule, Alignment) {
  const KernelCase c = real_case(kCudaTexts[2], DType::f32, 2, 2);
  auto words = [&](int64_t m, int64_t bytes) {
    const std::vector<int64_t> sizes{64, m};
    return describe(variant_of(c.kernel, sizes, {}, bytes, 1 << 20));
  };
  EXPECT_EQ(words(64, 16), "flat 1x256 vector 4 whole");
  EXPECT_EQ(words(64, 8), "flat 1x256 vector 2 whole");
  EXPECT_EQ(words(64, 4), "flat 1x256 vector 1 whole");
  EXPECT_EQ(words(66, 16), "flat 1x256 vector 2 whole");
  EXPECT_EQ(words(67, 16), "flat 1x256 vector 1 whole");
}

// A thread of a map loads several vectors at once if there are enough registers; then a launch has fewer blocks.
TEST(CudaSchedule, VectorsAhead) {
  const KernelCase c = real_case(kCudaTexts[7], DType::f32, 2, 1);
  const std::vector<int64_t> sizes{(1 << 26) - 4, 1};
  CudaDevice device;
  device.threads_per_multiprocessor = 1024;
  const KernelVariant v = variant_of(c.kernel, sizes, device);
  EXPECT_EQ(describe(v), "flat 1x256 vector 4 ahead 4 whole");
  EXPECT_EQ(describe(variant_of(c.kernel, sizes, device, 16, -1, 1)), "flat 1x256 vector 4 whole");
  const std::vector<int64_t> few{4096, 1};
  EXPECT_EQ(cuda_launch(*v.kernel, v.schedule, few, device).blocks, 1);
  EXPECT_EQ(cuda_launch(*v.kernel, v.schedule, std::vector<int64_t>{4100, 1}, device).blocks, 2);
}

// Indices have 64 bits if an element may lie beyond 2^31, or if the length is unknown.
TEST(CudaSchedule, WideIndices) {
  const KernelCase c = real_case(kCudaTexts[2], DType::f32, 2, 2),
                   gather = real_case(kCudaTexts[3], DType::f32, 2, 2);
  const std::vector<int64_t> small{1 << 10, 1 << 10}, large{1 << 17, 1 << 14};
  EXPECT_FALSE(variant_of(c.kernel, small, {}).schedule.wide);
  EXPECT_TRUE(variant_of(c.kernel, large, {}).schedule.wide);
  EXPECT_TRUE(variant_of(gather.kernel, small, {}).schedule.wide);
  EXPECT_FALSE(variant_of(gather.kernel, small, {}, 16, 1 << 30).schedule.wide);
  // No element lies beyond 2^31, but the number of iterations does.
  const auto counted = parse_kernel(R"(kernel @f(N, M; in %x: f32, out %y: f32) {
    par %i in 1 {
      %s = reduce add %j in N, simd %k in M {
        %v = load %x[%i]
        yield %v
      }
      store %y[%i], %s
    }
  })");
  ASSERT_TRUE(counted.ok()) << counted.status().message();
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1, int64_t{1} << 32}, {1 << 16, 1 << 16}})
    EXPECT_TRUE(variant_of(*counted, sizes, {}).schedule.wide);
  EXPECT_FALSE(variant_of(*counted, std::vector<int64_t>{1 << 15, 1 << 15}, {}).schedule.wide);
}

}  // namespace
}  // namespace tenon::jit
