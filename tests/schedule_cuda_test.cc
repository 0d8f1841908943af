// Schedules of kernels for a GPU, as words, over lengths, types and devices; and what a launch asks for. No device is needed.
#include "jit/schedule_cuda.h"

#include <gtest/gtest.h>

#include "tests/cuda_kernels.h"

namespace tenon::jit {
namespace {

CudaDevice device(const std::string& name) {
  CudaDevice d;
  d.name = name;
  if (name == "A100") d.architecture = 80, d.multiprocessors = 108, d.shared_bytes = 166912;
  if (name == "RTX 4090")
    d.architecture = 89, d.multiprocessors = 128, d.threads_per_multiprocessor = 1536,
    d.shared_bytes = 101376;
  return d;
}

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
      {0, DType::bf16, 16384, 4096, "H100", "row 128x1 vector 8 registers 4 whole approximate"},
      {0, DType::bf16, 16384, 8192, "H100", "row 256x1 vector 8 registers 4 whole approximate"},
      {0, DType::f32, 8192, 65536, "H100", "row 1024x1 vector 4 global whole"},
      {0, DType::bf16, 2048, 262144, "H100", "row 1024x1 vector 8 global whole approximate"},
      {0, DType::f32, 128, 50000, "H100", "row 1024x1 vector 4 shared whole"},
      {0, DType::f32, 128, 50000, "RTX 4090", "row 1024x1 vector 4 global whole"},
      {0, DType::f32, 128, 50000, "A100", "row 1024x1 vector 4 global whole"},
      {0, DType::f32, 131072, 128, "H100", "row 32x8 vector 4 registers 1 whole"},
      {0, DType::f32, 16, 1, "H100", "flat 1x256 vector 1 global"},
      {0, DType::f32, 0, 64, "H100", "row 16x16 vector 4 registers 1 whole"},
      {1, DType::bf16, 16384, 4096, "H100", "row 128x1 vector 8 registers 4 whole approximate"},
      {1, DType::bf16, 8192, 8192, "A100", "row 256x1 vector 8 registers 4 whole approximate"},
      {1, DType::f32, 4096, 1023, "H100", "row 256x1 vector 1 registers 4 whole"},
      {2, DType::f32, 8192, 8192, "H100", "flat 1x256 vector 4 whole"},
      {2, DType::bf16, 8192, 8190, "H100", "flat 1x256 vector 2 whole"},
      {3, DType::f16, 512, 768, "H100", "flat 1x256 vector 8 whole approximate"},
      {4, DType::f32, 16384, 4096, "H100", "flat 1x256 vector 4 whole"},
      {5, DType::f32, 128, 128, "H100", "flat 1x256 vector 1"},
      {6, DType::f32, 64, 64, "H100", "flat 1x256 vector 4 whole"},
      {7, DType::bf16, 1001, 1, "H100", "flat 1x256 vector 8 approximate"},
  };
  for (const Expected& e : all) {
    const KernelCase c = real_case(kCudaTexts[e.text], e.type, 2, 2);
    const std::vector<int64_t> sizes{e.n, e.m};
    const CudaSchedule s = cuda_schedule(c.kernel, sizes, device(e.device), 16, 1 << 20);
    EXPECT_EQ(describe(s), e.words) << c.kernel.name << " " << name(e.type) << " " << e.n << "x" << e.m << " "
                                    << e.device;
    const CudaLaunch l = cuda_launch(c.kernel, s, sizes, device(e.device));
    EXPECT_LE(l.threads, 1024);
    EXPECT_EQ(l.threads % 32, 0);
    EXPECT_LE(l.shared_bytes, device(e.device).shared_bytes);
    EXPECT_EQ(l.blocks == 0, e.n * e.m == 0);
  }
}

// Pointers that are aligned to less give narrower vectors; lengths that are not multiples give rows that are not.
TEST(CudaSchedule, Alignment) {
  const KernelCase c = real_case(kCudaTexts[2], DType::f32, 2, 2);
  auto words = [&](int64_t m, int64_t bytes) {
    const std::vector<int64_t> sizes{64, m};
    return describe(cuda_schedule(c.kernel, sizes, {}, bytes, 1 << 20));
  };
  EXPECT_EQ(words(64, 16), "flat 1x256 vector 4 whole");
  EXPECT_EQ(words(64, 8), "flat 1x256 vector 2 whole");
  EXPECT_EQ(words(64, 4), "flat 1x256 vector 1 whole");
  EXPECT_EQ(words(66, 16), "flat 1x256 vector 2 whole");
  EXPECT_EQ(words(67, 16), "flat 1x256 vector 1 whole");
}

// Indices have 64 bits where an element may lie beyond 2^31, or where nobody knows.
TEST(CudaSchedule, WideIndices) {
  const KernelCase c = real_case(kCudaTexts[2], DType::f32, 2, 2),
                   gather = real_case(kCudaTexts[3], DType::f32, 2, 2);
  const std::vector<int64_t> small{1 << 10, 1 << 10}, large{1 << 17, 1 << 14};
  EXPECT_FALSE(cuda_schedule(c.kernel, small, {}).wide);
  EXPECT_TRUE(cuda_schedule(c.kernel, large, {}).wide);
  EXPECT_TRUE(cuda_schedule(gather.kernel, small, {}).wide);
  EXPECT_FALSE(cuda_schedule(gather.kernel, small, {}, 16, 1 << 30).wide);
}

}  // namespace
}  // namespace tenon::jit
