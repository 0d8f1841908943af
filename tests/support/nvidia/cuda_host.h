// The primitives of jit/cuda/cuda_primitives.cuh for a host. The text of a kernel compiles unchanged into a shared object, and runs
// on the GPU of tests/mocks/cuda/cuda_host_gpu.h. Access to a vector that is not aligned to its size is an error.
// tests/support/nvidia/cuda_run.h and tests/mocks/nvrtc_mock.cc include it in front of the prelude.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "src/base/convert.h"
#include "tests/mocks/cuda/cuda_host_gpu.h"

// The GPU of the kernels in this object; it runs one launch at a time.
static tn_host::Gpu* tn_gpu;
extern "C" void tn_host_runs_on(tn_host::Gpu* gpu) { tn_gpu = gpu; }

#define TN_FN inline
#define __global__
#define __launch_bounds__(threads, blocks)
#define TN_CLUSTER(blocks)
#define TN_SHARED static __attribute__((section("tn_shared")))
#define TN_DYNAMIC_SHARED(name) char* name = tn_gpu->dynamic_shared
#define threadIdx tn_gpu->thread
#define blockIdx tn_gpu->block
#define blockDim tn_gpu->threads
#define gridDim tn_gpu->blocks

extern "C" char __start_tn_shared[], __stop_tn_shared[];
TN_SHARED char tn_shared_is_a_section[16];
// Bytes of static shared memory of the kernels in this object.
static int64_t tn_host_shared_bytes() {
  return __stop_tn_shared - __start_tn_shared - static_cast<int64_t>(sizeof tn_shared_is_a_section);
}

// Runs `call` for every thread. Returns "", or the first error.
template <class Call>
static const char* tn_host_launch(const Call& call, int64_t blocks, unsigned threads, int64_t shared_bytes,
                                  int order) {
  return tn_gpu->launch({[](const void* c) { (*static_cast<const Call*>(c))(); }, &call, __start_tn_shared,
                         __stop_tn_shared, blocks, threads, shared_bytes, order});
}

// Checks alignment to `bytes`, at most 16.
static void tn_check_aligned(const void* p, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(p) % (bytes < 16 ? bytes : 16) != 0)
    tn_gpu->fail("a vector is not aligned");
}

TN_FN void __syncthreads() { tn_gpu->block_barrier(); }

TN_FN float tn_as_float(unsigned int x) {
  float r;
  std::memcpy(&r, &x, 4);
  return r;
}
TN_FN float tn_inf() { return tn_as_float(0x7f800000u); }
TN_FN float tn_half_to_float(unsigned short x) { return tenon::f16_to_f32(x); }
TN_FN unsigned short tn_float_to_half(float x) { return tenon::f32_to_f16(x); }
TN_FN unsigned short tn_float_to_bf16(float x) { return tenon::f32_to_bf16(x); }

TN_FN unsigned tn_multiply(unsigned a, unsigned b, unsigned& high) {
  const uint64_t product = uint64_t{a} * b;
  high = static_cast<unsigned>(product >> 32);
  return static_cast<unsigned>(product);
}

TN_FN float tn_fast_div(float a, float b) { return a / b; }
TN_FN float tn_fast_sqrt(float a) { return std::sqrt(a); }
TN_FN float tn_fast_rsqrt(float a) { return 1 / std::sqrt(a); }
TN_FN float tn_fast_exp2(float a) { return std::exp2(a); }
TN_FN float tn_fast_exp2_flushed(float a) { return a < -126 ? 0 : std::exp2(a); }
TN_FN float tn_fast_reciprocal(float a) { return std::abs(a) > 0x1p126f ? std::copysign(0.0f, a) : 1 / a; }
// Rounded near 1: a device's result has an absolute error of up to 2^-22.6 there, however small it is.
TN_FN float tn_fast_log2(float a) {
  constexpr double kStep = 3.146e-7;  // 2^-21.6
  return a > 0.5f && a < 2 ? static_cast<float>(std::round(std::log2(double{a}) / kStep) * kStep)
                           : std::log2(a);
}

template <int T, class V>
static V tn_shuffle_xor(V x, int d) {
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  bits = tn_gpu->exchange(bits, static_cast<unsigned>(d), T);
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

template <int Bytes>
TN_FN void tn_read(void* to, const void* from) {
  tn_check_aligned(from, Bytes);
  std::memcpy(to, from, Bytes);
}
template <int Bytes>
TN_FN void tn_write(void* to, const void* from) {
  tn_check_aligned(to, Bytes);
  std::memcpy(to, from, Bytes);
}
TN_FN void tn_loads_first() {}

template <int Blocks>
TN_FN unsigned tn_cluster_rank() {
  static_assert(Blocks <= int{tn_host::kMostBlocks});
  return tn_gpu->cluster_rank(Blocks);
}
TN_FN void tn_cluster_barrier() { tn_gpu->cluster_barrier(); }
TN_FN unsigned long long tn_cluster_read(const unsigned long long* mine, unsigned rank) {
  return tn_gpu->cluster_read(mine, rank);
}
