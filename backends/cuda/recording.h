// Launches, one by one or as a CUDA graph: a kernel with its arguments as steps make it, and a recording of several, built as a
// chain of kernel nodes, never by capture. Tested by tests/cuda_graph_test.cc.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/cuda/device.h"
#include "src/runtime/backend.h"

namespace tenon::cuda {

// A kernel ready to go. Arguments are words: pointers, or integers of which a kernel takes as many bytes as it needs.
struct Work {
  static constexpr size_t kMostArguments = 192;
  CuFunction function = nullptr;
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  size_t count = 0;
  uint64_t values[kMostArguments];
  void add(uint64_t value) { values[count++] = value; }

  Status queue(const Device& device, CuStream stream) const;
};

// Adds to a recording of this device's.
void add(Recording& recording, const Work& work);

// Null: the device has as many as it may.
std::unique_ptr<Recording> record_graph(const Device& device);
inline constexpr int kMostGraphs = 64;  // of the process

}  // namespace tenon::cuda
