// Algorithm: the first usable engine that cuDNN's heuristics name for a problem, with its execution plans. It is made once per
// problem, device and alignment of the pointers, also if several threads ask at once; the process keeps the most recently used
// ones. Any thread. A run takes no lock, and makes a plan only if its handle has none yet.
// Tested by tests/unit/backends/cudnn_test.cc and tests/unit/backends/cudnn_graph_test.cc.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backends/nvidia/cudnn/engines.h"
#include "backends/nvidia/cudnn/handles.h"
#include "backends/nvidia/cudnn/problem.h"
#include "backends/nvidia/device/recording.h"

namespace tenon::cudnn {

// The arguments of a call, on the device unless stated otherwise.
struct Pointers {
  std::span<char* const> tensors;  // in the order of the problem, the result last
  std::span<const float> numbers;  // in host memory
  void* workspace;
};

class Algorithm {
 public:
  // The best algorithm for pointers that are multiples of `alignment` bytes and for at most so much workspace. unsupported: the
  // library has none. target: the call that needs it; null: no call yet.
  static Result<std::shared_ptr<const Algorithm>> of(Handles& handles, std::shared_ptr<const Problem> problem,
                                                     int64_t alignment, int64_t most_workspace,
                                                     cuda::CallTarget* target);

  int64_t workspace_bytes() const { return engine_->workspace; }
  int64_t bytes() const { return sizeof *this + 16384; }  // an estimate that includes the library's objects
  // A handle with its plan, leased for a run.
  struct Ready {
    Handles::Lease handle;
    DnnDescriptor plan = nullptr;
  };
  // The caller makes the device's context current for these two.
  Result<Ready> ready(cuda::CallTarget& target) const;
  Status run(const Ready& ready, const Pointers& pointers, void* stream) const;

  // Use of() instead.
  Algorithm(Handles& handles, std::shared_ptr<const Problem> problem, int64_t alignment);

 private:
  Status may_make(cuda::CallTarget& target) const;
  Status choose(const Handle& handle, int64_t most_workspace);
  Status make_plan(const Handle& handle) const;
  std::unique_ptr<Descriptor>& plan_of(const Handle& handle) const {
    return plans_[static_cast<size_t>(handle.number())];
  }

  Handles& handles_;
  const std::shared_ptr<const Problem> problem_;
  Operations operations_;
  std::vector<int64_t> ids_;  // of the tensors and numbers
  std::optional<Descriptor> graph_;
  std::unique_ptr<Engine> engine_;
  mutable std::mutex making_;  // held while a plan of engine_ is made
  // Indexed by the number of the handle. Only the holder of the handle accesses its entry.
  mutable std::array<std::unique_ptr<Descriptor>, Handles::kMost> plans_;
};

}  // namespace tenon::cudnn
