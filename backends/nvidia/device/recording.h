// Launches work one by one or as a CUDA graph. Work is a kernel with its arguments. A recording is a chain of graph nodes: kernel
// nodes, and child graphs that capture what a library call queues. The process has at most kMostGraphs graphs; a graph that was
// not launched for long is destroyed in favour of a new one. Tested by tests/unit/backends/cuda_graph_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/nvidia/device/device.h"
#include "src/backend/backend.h"
#include "src/base/function_ref.h"

namespace tenon::cuda {

// A kernel that is ready to launch. Arguments are 64-bit words: pointers, or integers of which the kernel reads the low bytes.
struct Work {
  static constexpr size_t kMostArguments = 192;
  CuFunction function = nullptr;
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  size_t count = 0;
  uint64_t values[kMostArguments];
  void add(uint64_t value) { values[count++] = value; }

  Status queue(const Device& device, CuStream stream) const;
};

// The target of a library call: a stream or a recording. Callers make everything that the call needs before begin(): begin() may
// start a capture, which forbids allocating, loading and compiling.
class CallTarget {
 public:
  // environment: the stream captures already. `what` states what is missing.
  virtual Status may_make(const std::string& what) = 0;
  // The stream for the call. Call this once.
  virtual Result<CuStream> begin() = 0;

 protected:
  ~CallTarget() = default;
};
class StreamTarget final : public CallTarget {
 public:
  StreamTarget(const Device& device, void* stream)
      : device_(device), stream_(static_cast<CuStream>(stream)) {}
  Status may_make(const std::string& what) override { return cuda::may_make(device_, stream_, what); }
  Result<CuStream> begin() override { return stream_; }

 private:
  const Device& device_;
  const CuStream stream_;
};

// Adds a kernel to a recording of the same device.
void add(Recording& recording, const Work& work);
// Adds a library call, identified by `call`. `queue` queues the call on the target; it runs with the device's context current, and
// again only if a word differs from the last recording.
Status add(Recording& recording, const void* call, std::span<const uint64_t> words,
           FunctionRef<Status(CallTarget&)> queue);

// A new recording. Null: the process has kMostGraphs graphs, and even the oldest was launched recently or is in use.
std::unique_ptr<Recording> record_graph(const Device& device);
inline constexpr size_t kMostGraphs = 64;
// A graph may be destroyed in favour of a new one after so many launches of other graphs.
inline constexpr uint64_t kForgottenAfter = 4 * kMostGraphs;

}  // namespace tenon::cuda
