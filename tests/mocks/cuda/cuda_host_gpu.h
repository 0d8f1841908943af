// A GPU for tests. It runs kernels that are compiled for the host (tests/support/nvidia/cuda_host.h), with one fiber per thread. A block
// runs to its end before the next one begins. Barriers and shuffles are real: a thread waits for all threads that take part, and a
// deadlock is an error. Blocks of a cluster run together, each with its own shared memory, from the moment when one of their
// threads asks for its rank. The caller chooses the order of threads (0: forward, 1: backward, from 2 on: random), so that a race
// shows as results that depend on the order. Shared memory holds NaN when a block begins. One launch at a time.
#pragma once

#include <cstdint>

namespace tn_host {

struct Dim {
  unsigned x = 0, y = 0, z = 0;
};

constexpr unsigned kMostBlocks = 8;  // most blocks of a cluster

struct Launch {
  void (*kernel)(const void* arguments);  // runs one thread
  const void* arguments;
  char *shared_begin, *shared_end;  // variables in shared memory
  int64_t blocks;
  unsigned threads;
  int64_t shared_bytes;  // dynamic shared memory
  int order;
};

// The interface of the GPU to kernels.
struct Gpu {
  Dim thread, block, threads, blocks;  // threadIdx, blockIdx, blockDim, gridDim of the running thread
  char* dynamic_shared;
  const char* (*launch)(const Launch& launch);  // returns "", or the first error
  void (*fail)(const char* what);
  void (*block_barrier)();
  // The value `mine` of the thread whose number in the team differs by these bits.
  uint64_t (*exchange)(uint64_t mine, unsigned bits, unsigned team);
  unsigned (*cluster_rank)(unsigned blocks);
  void (*cluster_barrier)();
  // Reads the counterpart of `mine` in the shared memory of another block of the cluster.
  uint64_t (*cluster_read)(const unsigned long long* mine, unsigned rank);
};

Gpu& gpu();
// Lets the kernels of an object that dlopen() has opened run on this GPU.
void runs_here(void* object);

}  // namespace tn_host
