// What the prelude needs from a device. The counterpart for hosts is tests/support/nvidia/cuda_host.h. A primitive
// that one of them lacks fails to compile: tests/unit/jit/cuda/nvrtc_test.cc compiles every schedule with this
// file, tests/unit/jit/cuda/emit_cuda_test.cc with the other.
#define TN_FN __device__ __forceinline__

TN_FN float tn_as_float(unsigned int x) { return __uint_as_float(x); }
TN_FN float tn_inf() { return __uint_as_float(0x7f800000u); }
TN_FN float tn_half_to_float(unsigned short x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
}
TN_FN unsigned short tn_float_to_half(float x) {
  unsigned short r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
TN_FN unsigned short tn_float_to_bf16(float x) {
  unsigned short r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}

// Both halves of a 32-bit product in one instruction; a 64-bit product would become several instructions.
TN_FN unsigned int tn_multiply(unsigned int a, unsigned int b, unsigned int& high) {
  unsigned int low;
  asm("{\n\t.reg .u64 p;\n\tmul.wide.u32 p, %2, %3;\n\tmov.b64 {%0, %1}, p;\n\t}" : "=r"(low), "=r"(high) : "r"(a), "r"(b));
  return low;
}

// __fdividef would return 0 or NaN for b above 2^126.
TN_FN float tn_fast_div(float a, float b) {
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#define TN_FAST(name, instruction)                         \
  TN_FN float tn_fast_##name(float a) {                    \
    float r;                                               \
    asm(instruction " %0, %1;" : "=f"(r) : "f"(a));        \
    return r;                                              \
  }
TN_FAST(sqrt, "sqrt.approx.f32")
TN_FAST(rsqrt, "rsqrt.approx.f32")
TN_FAST(exp2, "ex2.approx.f32")
TN_FAST(exp2_flushed, "ex2.approx.ftz.f32")  // numbers below 2^-126 count as 0
TN_FAST(reciprocal, "rcp.approx.ftz.f32")
TN_FAST(log2, "lg2.approx.f32")

// The value of the thread whose number differs by an exclusive or with `d`, within groups of T threads.
template <int T>
TN_FN unsigned int tn_team_mask() {
  if (T >= 32) return 0xffffffffu;
  return ((1u << (T & 31)) - 1u) << (threadIdx.x % 32 / T * T);
}
template <int T, class V>
TN_FN V tn_shuffle_xor(V x, int d) {
  static_assert(sizeof(V) == 1 || sizeof(V) == 2 || sizeof(V) == 4 || sizeof(V) == 8, "");
  constexpr int words = sizeof(V) == 8 ? 2 : 1;
  union { V value; unsigned int word[words]; } bits;
  bits.word[0] = 0;
  bits.value = x;
#pragma unroll
  for (int w = 0; w < words; ++w) bits.word[w] = __shfl_xor_sync(tn_team_mask<T>(), bits.word[w], d);
  return bits.value;
}

// Adjacent bytes, aligned to their number (at most 16).
template <int Bytes> struct tn_word;
template <> struct tn_word<1> { unsigned char at; };
template <> struct tn_word<2> { unsigned short at; };
template <> struct tn_word<4> { unsigned int at; };
template <> struct tn_word<8> { uint2 at; };
template <> struct tn_word<16> { uint4 at; };
template <> struct tn_word<32> { uint4 at[2]; };
template <> struct tn_word<64> { uint4 at[4]; };
// From memory to registers, and back.
template <int Bytes>
TN_FN void tn_read(void* to, const void* from) { *(tn_word<Bytes>*)to = *(const tn_word<Bytes>*)from; }
template <int Bytes>
TN_FN void tn_write(void* to, const void* from) { *(tn_word<Bytes>*)to = *(const tn_word<Bytes>*)from; }

// Loads above this call stay above it, so that several loads are in flight at once.
TN_FN void tn_loads_first() { asm volatile("" ::: "memory"); }

#define TN_SHARED __shared__
#define TN_DYNAMIC_SHARED(name) extern __shared__ __align__(16) char name[]

// A kernel whose blocks form clusters, which run at the same time; from sm_90 on. Ranks are 0 to Blocks - 1,
// in the order of blockIdx.
#define TN_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#if __CUDA_ARCH__ >= 900
template <int Blocks>
TN_FN unsigned int tn_cluster_rank() {
  unsigned int r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
// A barrier of all threads of the cluster. Writes to shared memory before it are visible to all threads after
// it.
TN_FN void tn_cluster_barrier() {
  __syncwarp();  // the aligned barrier needs a converged warp
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Reads the same address in the shared memory of another block.
TN_FN unsigned long long tn_cluster_read(const unsigned long long* mine, unsigned int rank) {
  unsigned int here = (unsigned int)__cvta_generic_to_shared(mine), there;
  unsigned long long r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(r) : "r"(there) : "memory");
  return r;
}
#endif
