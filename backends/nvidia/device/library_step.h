// LibraryStep: one problem of a library on a device, as a step. It holds one algorithm of the library per alignment of its pointers.
// Algorithms for less than 16 bytes are chosen to need no more workspace than the one for 16.
// Tested by tests/unit/backends/cublaslt_test.cc and tests/unit/backends/cudnn_test.cc.
#pragma once

#include <algorithm>
#include <array>
#include <variant>
#include <vector>

#include "backends/library/by_alignment.h"
#include "backends/library/tensor.h"
#include "backends/nvidia/device/recording.h"
#include "src/base/align.h"

namespace tenon::cuda {

// Held: what a call keeps until it is queued, or until its capture has ended.
template <class Algorithm, class Held = std::monostate>
class LibraryStep : public Step {
 public:
  int64_t scratch_bytes() const final {
    const int64_t bytes = zeros_ + workspace_;
    return bytes > 0 ? bytes + kWorkspaceAlignment - kAlign : 0;  // scratch is aligned to kAlign
  }
  int64_t bytes() const final { return static_cast<int64_t>(sizeof *this) + algorithms_.bytes(); }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const final {
    if (recordable() == 0) return {};
    const Current current(device_);
    TENON_TRY(current.status());
    StreamTarget target(device_, on.stream);
    Held held;
    return queue(addresses(buffers, scratch), target, held);
  }
  Status record(void* const* buffers, char* scratch, Recording& recording) const final {
    if (recordable() == 0) return {};
    uint64_t words[kMostTensors + 1] = {};
    for (size_t t = 0; t < tensors_.size(); ++t)
      words[t] = reinterpret_cast<uint64_t>(buffers[tensors_[t].buffer]);
    if (scratch_bytes() > 0) words[kMostTensors] = reinterpret_cast<uint64_t>(scratch);
    Held held;
    return cuda::add(recording, this, words,
                     [&](CallTarget& target) { return queue(addresses(buffers, scratch), target, held); });
  }

 protected:
  static constexpr size_t kMostTensors = 5;
  static constexpr int64_t kBestAlignment = library::ByAlignment<Algorithm>::kMost;
  struct Addresses {
    std::array<char*, kMostTensors> tensors;
    char *zeros, *workspace;
  };

  // zeros: bytes of scratch in front of the workspace that queue() sets to zero.
  LibraryStep(const Device& device, std::vector<library::Place> tensors, int64_t zeros)
      : device_(device), tensors_(std::move(tensors)), zeros_(round_up(zeros)) {
    TENON_CHECK(tensors_.size() <= kMostTensors, "a library call of too many tensors");
  }
  // Sets the algorithm for aligned pointers. Called once, before the first run.
  void keep(std::shared_ptr<const Algorithm> algorithm) {
    workspace_ = algorithm->workspace_bytes();
    algorithms_.keep_most(std::move(algorithm));
  }
  // The algorithm for these tensors. distances: the bitwise or of the distances to other tensors of the same call.
  // make(alignment, most_workspace) returns a Result of a shared pointer.
  template <class Make>
  Result<const Algorithm*> algorithm(const Addresses& at, uintptr_t distances, const Make& make) const {
    for (size_t t = 0; t < tensors_.size(); ++t) distances |= reinterpret_cast<uintptr_t>(at.tensors[t]);
    return algorithms_.at(distances, [&](int64_t alignment) { return make(alignment, workspace_); });
  }
  // Queues the call: asks the target for the stream once everything is there that the call needs.
  virtual Status queue(Addresses at, CallTarget& target, Held& held) const = 0;
  Status clear(char* at, int64_t bytes, CuStream stream) const {
    return device_.driver().cuMemsetD8Async(reinterpret_cast<CuAddress>(at), 0, static_cast<size_t>(bytes),
                                            stream);
  }

 private:
  static constexpr int64_t kWorkspaceAlignment = 256;
  static int64_t round_up(int64_t bytes) {
    return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  }

  Addresses addresses(void* const* buffers, char* scratch) const {
    Addresses at{};
    for (size_t t = 0; t < tensors_.size(); ++t)
      at.tensors[t] = static_cast<char*>(buffers[tensors_[t].buffer]) + tensors_[t].offset;
    at.zeros = reinterpret_cast<char*>(round_up(reinterpret_cast<int64_t>(scratch)));
    at.workspace = at.zeros + zeros_;
    return at;
  }

  const Device& device_;
  const std::vector<library::Place> tensors_;
  const int64_t zeros_;
  int64_t workspace_ = 0;
  library::ByAlignment<Algorithm> algorithms_;
};

}  // namespace tenon::cuda
