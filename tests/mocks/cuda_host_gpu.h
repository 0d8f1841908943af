// A GPU for tests: it runs kernels that are compiled for the host (tests/support/cuda_host.h), one fiber per thread; a block runs to its
// end before the next begins. Barriers and shuffles are real: a thread that comes to one waits for all who have to, and threads
// that wait for each other for ever are an error. Blocks of a cluster run together, each with shared memory of its own, from the
// moment when the first of their threads asks for its rank. Threads go on in the order that is asked for (0: forward,
// 1: backward, from 2 on: at random): a race shows as results that depend on it. Shared memory holds NaN before a block.
// One launch at a time.
#pragma once

#include <cstdint>

namespace tn_host {

struct Dim {
  unsigned x = 0, y = 0, z = 0;
};

constexpr unsigned kMostBlocks = 8;  // of a cluster

struct Launch {
  void (*kernel)(const void* arguments);  // a thread's part
  const void* arguments;
  char *shared_begin, *shared_end;  // variables in shared memory
  int64_t blocks;
  unsigned threads;
  int64_t shared_bytes;  // besides
  int order;
};

// What a kernel sees of it.
struct Gpu {
  Dim thread, block, threads, blocks;  // of the thread that runs: threadIdx, blockIdx, blockDim, gridDim
  char* dynamic_shared;
  const char* (*launch)(const Launch& launch);  // empty, or what went wrong first
  void (*fail)(const char* what);
  void (*block_barrier)();
  // What the thread brings whose number in the team differs by these bits.
  uint64_t (*exchange)(uint64_t mine, unsigned bits, unsigned team);
  unsigned (*cluster_rank)(unsigned blocks);
  void (*cluster_barrier)();
  // Of another block of the cluster, what this block has at `mine`.
  uint64_t (*cluster_read)(const unsigned long long* mine, unsigned rank);
};

Gpu& gpu();
// Kernels of an object that dlopen() has opened run on it from now on.
void runs_here(void* object);

}  // namespace tn_host
