// A GPU for tests: what jit/cuda_primitives.cuh has on a device, on a host, so that a kernel's text runs unchanged. One fiber
// per thread; a block runs to its end before the next begins. Barriers and shuffles are real: a thread that comes to one
// waits for all who have to, and threads that wait for each other for ever are an error. Threads go on in the order that is
// asked for (0: forward, 1: backward, from 2 on: at random): a race shows as results that depend on it. Shared memory holds
// NaN before a block. A vector that is not aligned to its size is an error.
// Included in front of the prelude, in a shared object of its own: jit/cuda_prelude.cuh, tests/cuda_run.h.
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#define TN_FN inline
#define __global__
#define __launch_bounds__(threads, blocks)
#define TN_SHARED static __attribute__((section("tn_shared")))
#define TN_DYNAMIC_SHARED(name) char* name = tn_host::dynamic_shared

struct tn_dim {
  unsigned x = 0, y = 0, z = 0;
};
static tn_dim threadIdx, blockIdx, blockDim, gridDim;

extern "C" char __start_tn_shared[], __stop_tn_shared[];
TN_SHARED char tn_shared_is_a_section[16];

namespace tn_host {

static char* dynamic_shared;
static char error[256];

// Threads that have come to a barrier, and how often it has opened.
struct Barrier {
  int come = 0;
  unsigned opened = 0;
};
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = false;
  const Barrier* waits = nullptr;
  unsigned for_opening = 0;
};

static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static unsigned self;
static std::function<void()>* body;
static Barrier block_barrier;
static std::vector<Barrier> team_barriers[6];  // of 1, 2, 4, ... threads
static std::vector<uint64_t> exchanged[2];
static std::vector<int> exchange_turn;

static void fail(const char* what) {
  if (!error[0]) std::snprintf(error, sizeof error, "block %u thread %u: %s", blockIdx.x, self, what);
}

static void start() {
  (*body)();
  fibers[self].done = true;
  swapcontext(&fibers[self].context, &scheduler);
}

static void wait(Barrier& b, int all) {
  if (++b.come == all) {
    b.come = 0;
    ++b.opened;
    return;
  }
  Fiber& f = fibers[self];
  f.waits = &b;
  f.for_opening = b.opened;
  swapcontext(&f.context, &scheduler);
}

static void run_block(unsigned threads, int order, std::mt19937& random) {
  constexpr size_t kStack = 64 << 10;
  std::memset(__start_tn_shared, 0xff, static_cast<size_t>(__stop_tn_shared - __start_tn_shared));
  block_barrier = {};
  for (auto& barriers : team_barriers) barriers.assign(threads, {});
  exchanged[0].assign(threads, 0);
  exchanged[1].assign(threads, 0);
  exchange_turn.assign(threads, 0);
  fibers.resize(threads);
  for (Fiber& f : fibers) {
    f.done = false;
    f.waits = nullptr;
    if (!f.stack) f.stack.reset(new char[kStack]);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    makecontext(&f.context, start, 0);
  }
  std::vector<unsigned> turn(threads);
  for (unsigned i = 0; i < threads; ++i) turn[i] = order == 1 ? threads - 1 - i : i;
  unsigned steps = 0;
  for (size_t i = 0; i < threads;) {
    if (i == 0 && order >= 2 && steps++ % threads == 0) std::shuffle(turn.begin(), turn.end(), random);
    Fiber& f = fibers[turn[i]];
    ++i;
    if (f.done || (f.waits && f.waits->opened == f.for_opening)) continue;
    f.waits = nullptr;
    self = turn[i - 1];
    threadIdx.x = self;
    swapcontext(&scheduler, &f.context);
    i = 0;  // so the first ones run ahead of the others as far as they can
  }
  for (unsigned t = 0; t < threads; ++t)
    if (!fibers[t].done) {
      self = t;
      return fail("waits for threads that do not come");
    }
}

// A multiple of 16 and of nothing more.
static void check_aligned(const void* p, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(p) % (bytes < 16 ? bytes : 16) != 0) fail("a vector is not aligned");
}

}  // namespace tn_host

// Runs `call` for every thread; empty, or what went wrong.
static const char* tn_host_launch(std::function<void()> call, int64_t blocks, unsigned threads,
                                  int64_t shared_bytes, int order) {
  using namespace tn_host;
  std::vector<char> shared(static_cast<size_t>(shared_bytes) + 32);
  std::mt19937 random(static_cast<unsigned>(order));
  error[0] = 0;
  body = &call;
  blockDim.x = threads;
  gridDim.x = static_cast<unsigned>(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    std::memset(shared.data(), 0xff, shared.size());
    dynamic_shared = shared.data() + (16 - reinterpret_cast<uintptr_t>(shared.data()) % 16);
    blockIdx.x = static_cast<unsigned>(b);
    run_block(threads, order, random);
    if (error[0]) break;
  }
  return error;
}

TN_FN void __syncthreads() { tn_host::wait(tn_host::block_barrier, static_cast<int>(blockDim.x)); }

TN_FN float tn_as_float(unsigned int x) {
  float r;
  std::memcpy(&r, &x, 4);
  return r;
}
TN_FN float tn_inf() { return tn_as_float(0x7f800000u); }
#include "src/base/convert.h"
TN_FN float tn_half_to_float(unsigned short x) { return tenon::f16_to_f32(x); }
TN_FN unsigned short tn_float_to_half(float x) { return tenon::f32_to_f16(x); }
TN_FN unsigned short tn_float_to_bf16(float x) { return tenon::f32_to_bf16(x); }

TN_FN float tn_fast_div(float a, float b) { return a / b; }
TN_FN float tn_fast_sqrt(float a) { return std::sqrt(a); }
TN_FN float tn_fast_rsqrt(float a) { return 1 / std::sqrt(a); }
TN_FN float tn_fast_exp2(float a) { return std::exp2(a); }
TN_FN float tn_fast_exp2_flushed(float a) { return a < -126 ? 0 : std::exp2(a); }
TN_FN float tn_fast_reciprocal(float a) { return std::abs(a) > 0x1p126f ? std::copysign(0.0f, a) : 1 / a; }
TN_FN float tn_fast_log2(float a) { return std::log2(a); }
TN_FN float tn_fast_tanh(float a) { return std::tanh(a); }

template <int T, class V>
static V tn_shuffle_xor(V x, int d) {
  using namespace tn_host;
  int& turn = exchange_turn[self];
  std::vector<uint64_t>& place = exchanged[turn];
  turn ^= 1;
  std::memcpy(&place[self], &x, sizeof x);
  wait(team_barriers[std::countr_zero(unsigned{T})][self / T * T], T);
  V other;
  std::memcpy(&other, &place[self ^ static_cast<unsigned>(d)], sizeof other);
  return other;
}

template <int Bytes>
TN_FN void tn_read(void* to, const void* from) {
  tn_host::check_aligned(from, Bytes);
  std::memcpy(to, from, Bytes);
}
template <int Bytes>
TN_FN void tn_write(void* to, const void* from) {
  tn_host::check_aligned(to, Bytes);
  std::memcpy(to, from, Bytes);
}
TN_FN void tn_loads_first() {}
