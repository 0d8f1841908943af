// A GPU for tests: what jit/cuda_primitives.cuh has on a device, on a host, so that a kernel's text runs unchanged. One fiber
// per thread; a block runs to its end before the next begins. Barriers and shuffles are real: a thread that comes to one
// waits for all who have to, and threads that wait for each other for ever are an error. Blocks of a cluster run together,
// each with shared memory of its own, from the moment when the first of their threads asks for its rank. Threads go on in the order that is
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
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <vector>

#define TN_FN inline
#define __global__
#define __launch_bounds__(threads, blocks)
#define TN_CLUSTER(blocks)
#define TN_SHARED static __attribute__((section("tn_shared")))
#define TN_DYNAMIC_SHARED(name) char* name = tn_host::dynamic_shared

struct tn_dim {
  unsigned x = 0, y = 0, z = 0;
};
static tn_dim threadIdx, blockIdx, blockDim, gridDim;

extern "C" char __start_tn_shared[], __stop_tn_shared[];
TN_SHARED char tn_shared_is_a_section[16];
// What the kernels of this object have without asking for it at a launch.
static int64_t tn_host_shared_bytes() {
  return __stop_tn_shared - __start_tn_shared - static_cast<int64_t>(sizeof tn_shared_is_a_section);
}

namespace tn_host {

static char* dynamic_shared;  // of the block that runs
static char error[256];

// Threads that have come to a barrier.
struct Barrier {
  int come = 0;
  std::vector<unsigned> waiting;
};
struct Fiber {
  ucontext_t context;
  bool done = false, waits = false;
};

constexpr unsigned kMostBlocks = 8;  // of a cluster
// Of the block that runs the static part is where its variables are.
struct SharedMemory {
  std::vector<char> fixed, dynamic;
  char* begin = nullptr;  // of the dynamic part
};

static std::deque<Fiber> fibers;  // of the blocks that run together, block after block
static std::vector<std::unique_ptr<char[]>> stacks;
static std::vector<unsigned> turns;                    // by fiber: who goes first has the lowest
static std::set<std::pair<unsigned, unsigned>> ready;  // turn and fiber
static ucontext_t scheduler;
static unsigned self, blocks_together, first_block;
static std::function<void()>* body;
static Barrier block_barriers[kMostBlocks], cluster_barrier;
static SharedMemory shared_memory[kMostBlocks];
static unsigned running;                       // the block whose static part is in its place
static std::vector<Barrier> team_barriers[6];  // of 1, 2, 4, ... threads
static std::vector<uint64_t> exchanged[2];
static std::vector<int> exchange_turn;

static void fail(const char* what) {
  if (!error[0])
    std::snprintf(error, sizeof error, "block %u thread %u: %s", blockIdx.x, self % blockDim.x, what);
}

static void start() {
  (*body)();
  fibers[self].done = true;
  ready.erase({turns[self], self});
  swapcontext(&fibers[self].context, &scheduler);
}

static void wait(Barrier& b, int all) {
  if (++b.come == all) {
    b.come = 0;
    for (unsigned f : b.waiting) {
      fibers[f].waits = false;
      ready.emplace(turns[f], f);
    }
    b.waiting.clear();
    return;
  }
  Fiber& f = fibers[self];
  f.waits = true;
  b.waiting.push_back(self);
  ready.erase({turns[self], self});
  swapcontext(&f.context, &scheduler);
}

static void give_turns(int order, std::mt19937& random) {
  const auto all = static_cast<unsigned>(fibers.size());
  turns.resize(all);
  for (unsigned f = 0; f < all; ++f) turns[f] = order == 1 ? all - 1 - f : f;
  if (order >= 2) std::shuffle(turns.begin(), turns.end(), random);
  ready.clear();
  for (unsigned f = 0; f < all; ++f)
    if (!fibers[f].done && !fibers[f].waits) ready.emplace(turns[f], f);
}

static size_t fixed_bytes() { return static_cast<size_t>(__stop_tn_shared - __start_tn_shared); }

// The next block of those that run together: its threads, and shared memory that holds NaN.
static void add_block(unsigned threads, int64_t shared_bytes) {
  constexpr size_t kStack = 64 << 10;
  const unsigned block = static_cast<unsigned>(fibers.size()) / threads;
  SharedMemory& m = shared_memory[block];
  m.fixed.assign(fixed_bytes(), '\xff');
  m.dynamic.assign(static_cast<size_t>(shared_bytes) + 32, '\xff');
  m.begin = m.dynamic.data() + (16 - reinterpret_cast<uintptr_t>(m.dynamic.data()) % 16);
  for (unsigned i = 0; i < threads; ++i) {
    if (stacks.size() == fibers.size()) stacks.emplace_back(new char[kStack]);
    Fiber& f = fibers.emplace_back();
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stacks[fibers.size() - 1].get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    makecontext(&f.context, start, 0);
  }
}

static void go_on(unsigned fiber, unsigned threads) {
  const unsigned block = fiber / threads;
  if (block != running) {
    std::memcpy(shared_memory[running].fixed.data(), __start_tn_shared, fixed_bytes());
    std::memcpy(__start_tn_shared, shared_memory[block].fixed.data(), fixed_bytes());
    running = block;
  }
  dynamic_shared = shared_memory[block].begin;
  self = fiber;
  threadIdx.x = fiber % threads;
  blockIdx.x = first_block + block;
  swapcontext(&scheduler, &fibers[fiber].context);
}

static void run_blocks(unsigned threads, int64_t shared_bytes, int order, std::mt19937& random) {
  std::fill(std::begin(block_barriers), std::end(block_barriers), Barrier{});
  cluster_barrier = {};
  for (auto& barriers : team_barriers) barriers.assign(threads * kMostBlocks, {});
  exchanged[0].assign(threads * kMostBlocks, 0);
  exchanged[1].assign(threads * kMostBlocks, 0);
  exchange_turn.assign(threads * kMostBlocks, 0);
  fibers.clear();
  running = 0;
  std::memset(__start_tn_shared, 0xff, fixed_bytes());
  ready.clear();
  // The first of those that can go on runs ahead of the others as far as it can.
  for (unsigned steps = 0;; ++steps) {
    const bool all_here = fibers.size() == blocks_together * threads;
    while (fibers.size() < blocks_together * threads) add_block(threads, shared_bytes);
    if (!all_here || (order >= 2 && steps % threads == 0)) give_turns(order, random);
    if (ready.empty()) break;
    go_on(ready.begin()->second, threads);
  }
  for (unsigned t = 0; t < fibers.size(); ++t)
    if (!fibers[t].done) {
      self = t;
      blockIdx.x = first_block + t / threads;
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
  std::mt19937 random(static_cast<unsigned>(order));
  error[0] = 0;
  body = &call;
  blockDim.x = threads;
  gridDim.x = static_cast<unsigned>(blocks);
  for (int64_t b = 0; b < blocks && !error[0]; b += blocks_together) {
    first_block = static_cast<unsigned>(b);
    blocks_together = 1;
    run_blocks(threads, shared_bytes, order, random);
  }
  return error;
}

TN_FN void __syncthreads() {
  using namespace tn_host;
  wait(block_barriers[self / blockDim.x], static_cast<int>(blockDim.x));
}

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
// Near 1 a device is off by up to 2^-22.6, however small the result is.
TN_FN float tn_fast_log2(float a) {
  constexpr double kStep = 3.146e-7;  // 2^-21.6
  return a > 0.5f && a < 2 ? static_cast<float>(std::round(std::log2(double{a}) / kStep) * kStep)
                           : std::log2(a);
}

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

template <int Blocks>
TN_FN unsigned tn_cluster_rank() {
  using namespace tn_host;
  static_assert(Blocks <= kMostBlocks);
  if (gridDim.x % Blocks != 0 || first_block % Blocks != 0) fail("is in no whole cluster");
  blocks_together = Blocks;
  return self / blockDim.x;
}
TN_FN void tn_cluster_barrier() {
  using namespace tn_host;
  wait(cluster_barrier, static_cast<int>(blocks_together * blockDim.x));
}
TN_FN unsigned long long tn_cluster_read(const unsigned long long* mine, unsigned rank) {
  using namespace tn_host;
  const char* at = reinterpret_cast<const char*>(mine);
  if (at < __start_tn_shared || at >= __stop_tn_shared) return fail("reads what is not shared"), 0;
  if (fibers[rank * blockDim.x].done && fibers[(rank + 1) * blockDim.x - 1].done)
    fail("reads the memory of a block that has ended");
  if (rank != running) at = shared_memory[rank].fixed.data() + (at - __start_tn_shared);
  unsigned long long r;
  std::memcpy(&r, at, sizeof r);
  return r;
}
