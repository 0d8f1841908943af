// Launches, one by one or as a CUDA graph: a kernel with its arguments as steps make it, and a recording of several, built as a
// chain of nodes: kernels directly, a library's call from what it queues while a stream captures. The process has so many
// graphs at most; one that has not been launched for long makes room for another. Tested by tests/unit/backends/cuda_graph_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/nvidia/device/device.h"
#include "src/base/function_ref.h"
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

// Where a library's call is put: a stream, or a recording. What the call needs is made before begin(), since that may allocate,
// load and compile, which a capture forbids.
class CallTarget {
 public:
  // environment: the caller captures already, and `what` says what is missing.
  virtual Status may_make(const std::string& what) = 0;
  // The stream for the call; once.
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

// Adds to a recording of this device's.
void add(Recording& recording, const Work& work);
// A library's call, known by `call`. `queue` puts it where it is told, with the device's context current, again only where a word
// differs from the last time.
Status add(Recording& recording, const void* call, std::span<const uint64_t> words,
           FunctionRef<Status(CallTarget&)> queue);

// Null: the process has as many as it may, and launches them all.
std::unique_ptr<Recording> record_graph(const Device& device);
inline constexpr size_t kMostGraphs = 64;
// A graph makes room for another when so many launches of others have passed it by.
inline constexpr uint64_t kForgottenAfter = 4 * kMostGraphs;

}  // namespace tenon::cuda
