// See cuda_host_gpu.h. Compiled without sanitizers, since they do not know the stacks of the fibers.
#include "tests/mocks/cuda/cuda_host_gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

// Switches from the running stack, whose top it writes to *from, to the stack whose top is `to`. For x86-64, System V.
extern "C" void tn_host_switch(void** from, void* to);
asm(R"(
.text
.type tn_host_switch, @function
tn_host_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size tn_host_switch, . - tn_host_switch
)");

namespace tn_host {
namespace {

constexpr size_t kStack = 64 << 10;

// A barrier, and the threads that wait at it.
struct Barrier {
  unsigned come = 0;
  std::vector<unsigned> waiting;
};
struct Fiber {
  void* top = nullptr;  // top of its stack while it does not run
  bool done = false, waits = false;
};
// The shared memory of a block that does not run. The variables of the running block are at the kernel's addresses.
struct SharedMemory {
  std::vector<char> variables, dynamic;
  char* begin = nullptr;  // beginning of the dynamic part
};

// The fibers that are ready to run, by turn; the lowest turn runs first.
class Ready {
 public:
  void clear(size_t all) { bits_.assign((all + 63) / 64, 0); }
  void add(unsigned turn) { bits_[turn / 64] |= uint64_t{1} << turn % 64; }
  void remove(unsigned turn) { bits_[turn / 64] &= ~(uint64_t{1} << turn % 64); }
  // Returns the first turn, or -1 if none is ready.
  int first() const {
    for (size_t i = 0; i < bits_.size(); ++i)
      if (bits_[i]) return static_cast<int>(i * 64) + std::countr_zero(bits_[i]);
    return -1;
  }

 private:
  std::vector<uint64_t> bits_;
};

Launch launch;
char error[256];
std::vector<Fiber> fibers;  // the fibers of the blocks that run together, block after block
std::vector<std::unique_ptr<char[]>> stacks;
std::vector<unsigned> turns, fiber_of;  // the turn of each fiber, the fiber of each turn
Ready ready;
void* scheduler;
unsigned self, blocks_together, first_block;
Barrier block_barriers[kMostBlocks], the_cluster_barrier;
SharedMemory shared_memory[kMostBlocks];
unsigned running;                       // the block whose variables are at the kernel's addresses
std::vector<Barrier> team_barriers[6];  // for teams of 1, 2, 4, ... threads
std::vector<uint64_t> exchanged[2];
std::vector<uint8_t> exchange_turn;

void fail(const char* what) {
  if (!error[0])
    std::snprintf(error, sizeof error, "block %u thread %u: %s", gpu().block.x, self % launch.threads, what);
}

void start() {
  launch.kernel(launch.arguments);
  fibers[self].done = true;
  ready.remove(turns[self]);
  tn_host_switch(&fibers[self].top, scheduler);
}

// Makes a stack on which tn_host_switch returns into start(), as if it had been called.
void* new_stack(char* begin) {
  void** top = reinterpret_cast<void**>(begin + kStack - reinterpret_cast<uintptr_t>(begin + kStack) % 16);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&start);
  for (int registers = 0; registers < 6; ++registers) *--top = nullptr;
  return top;
}

void wait(Barrier& b, unsigned all) {
  if (++b.come == all) {
    b.come = 0;
    for (unsigned f : b.waiting) {
      fibers[f].waits = false;
      ready.add(turns[f]);
    }
    b.waiting.clear();
    return;
  }
  Fiber& f = fibers[self];
  f.waits = true;
  b.waiting.push_back(self);
  ready.remove(turns[self]);
  tn_host_switch(&f.top, scheduler);
}

void give_turns(std::mt19937& random) {
  const auto all = static_cast<unsigned>(fibers.size());
  turns.resize(all);
  for (unsigned f = 0; f < all; ++f) turns[f] = launch.order == 1 ? all - 1 - f : f;
  if (launch.order >= 2) std::shuffle(turns.begin(), turns.end(), random);
  fiber_of.resize(all);
  ready.clear(all);
  for (unsigned f = 0; f < all; ++f) {
    fiber_of[turns[f]] = f;
    if (!fibers[f].done && !fibers[f].waits) ready.add(turns[f]);
  }
}

size_t bytes_of_variables() { return static_cast<size_t>(launch.shared_end - launch.shared_begin); }

// Adds the next of the blocks that run together: its threads, and shared memory that holds NaN.
void add_block() {
  SharedMemory& m = shared_memory[fibers.size() / launch.threads];
  m.variables.assign(bytes_of_variables(), '\xff');
  m.dynamic.assign(static_cast<size_t>(launch.shared_bytes) + 32, '\xff');
  m.begin = m.dynamic.data() + (16 - reinterpret_cast<uintptr_t>(m.dynamic.data()) % 16);
  for (unsigned i = 0; i < launch.threads; ++i) {
    if (stacks.size() == fibers.size()) stacks.emplace_back(new char[kStack]);
    fibers.push_back({new_stack(stacks[fibers.size()].get())});
  }
}

void go_on(unsigned fiber) {
  const unsigned block = fiber / launch.threads;
  if (block != running) {
    std::memcpy(shared_memory[running].variables.data(), launch.shared_begin, bytes_of_variables());
    std::memcpy(launch.shared_begin, shared_memory[block].variables.data(), bytes_of_variables());
    running = block;
  }
  self = fiber;
  gpu().dynamic_shared = shared_memory[block].begin;
  gpu().thread.x = fiber % launch.threads;
  gpu().block.x = first_block + block;
  tn_host_switch(&scheduler, fibers[fiber].top);
}

void run_blocks(std::mt19937& random) {
  const size_t most = size_t{launch.threads} * kMostBlocks;
  std::fill(std::begin(block_barriers), std::end(block_barriers), Barrier{});
  the_cluster_barrier = {};
  for (auto& barriers : team_barriers) barriers.assign(most, {});
  for (auto& values : exchanged) values.assign(most, 0);
  exchange_turn.assign(most, 0);
  fibers.clear();
  fibers.reserve(most);
  running = 0;
  blocks_together = 1;
  std::memset(launch.shared_begin, 0xff, bytes_of_variables());
  // The first fiber that is ready runs until it waits.
  for (unsigned steps = 0;; ++steps) {
    const bool all_here = fibers.size() == size_t{blocks_together} * launch.threads;
    while (fibers.size() < size_t{blocks_together} * launch.threads) add_block();
    if (!all_here || (launch.order >= 2 && steps % launch.threads == 0)) give_turns(random);
    const int turn = ready.first();
    if (turn < 0) break;
    go_on(fiber_of[static_cast<unsigned>(turn)]);
  }
  for (unsigned f = 0; f < fibers.size(); ++f)
    if (!fibers[f].done) {
      self = f;
      gpu().block.x = first_block + f / launch.threads;
      return fail("waits for threads that do not come");
    }
}

const char* run(const Launch& l) {
  launch = l;
  std::mt19937 random(static_cast<unsigned>(launch.order));
  error[0] = 0;
  gpu().threads.x = launch.threads;
  gpu().blocks.x = static_cast<unsigned>(launch.blocks);
  for (int64_t b = 0; b < launch.blocks && !error[0]; b += blocks_together) {
    first_block = static_cast<unsigned>(b);
    run_blocks(random);
  }
  return error;
}

void block_barrier() { wait(block_barriers[self / launch.threads], launch.threads); }

uint64_t exchange(uint64_t mine, unsigned bits, unsigned team) {
  std::vector<uint64_t>& place = exchanged[exchange_turn[self]];
  exchange_turn[self] ^= 1;
  place[self] = mine;
  wait(team_barriers[std::countr_zero(team)][self / team * team], team);
  return place[self ^ bits];
}

unsigned cluster_rank(unsigned blocks) {
  if (gpu().blocks.x % blocks != 0 || first_block % blocks != 0) fail("is in no whole cluster");
  blocks_together = blocks;
  return self / launch.threads;
}

void cluster_barrier() { wait(the_cluster_barrier, blocks_together * launch.threads); }

uint64_t cluster_read(const unsigned long long* mine, unsigned rank) {
  const char* at = reinterpret_cast<const char*>(mine);
  if (at < launch.shared_begin || at >= launch.shared_end) return fail("reads what is not shared"), 0;
  if (fibers[rank * launch.threads].done && fibers[(rank + 1) * launch.threads - 1].done)
    fail("reads the memory of a block that has ended");
  if (rank != running) at = shared_memory[rank].variables.data() + (at - launch.shared_begin);
  uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

Gpu& gpu() {
  static Gpu gpu = {
      {},          {}, {}, {}, nullptr, run, fail, block_barrier, exchange, cluster_rank, cluster_barrier,
      cluster_read};
  return gpu;
}

void runs_here(void* object) {
  if (void* tell = dlsym(object, "tn_host_runs_on")) reinterpret_cast<void (*)(Gpu*)>(tell)(&gpu());
}

}  // namespace tn_host
