// Algorithm: the engine that cuDNN's heuristics named first for a problem and that can be used, with execution plans of it. Made
// once per problem, device and alignment of the pointers, also when several threads ask at once, and kept, those that were
// asked for last. Any thread; a run takes no lock, and makes a plan only with a handle that it has none for yet.
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

// Of a call, on the device.
struct Pointers {
  std::span<void* const> tensors;  // in the order of the problem, the result last
  std::span<const float> numbers;  // of the host
  void* workspace;
};

class Algorithm {
 public:
  // The best for pointers of which all are multiples of `alignment` bytes and for so much workspace. unsupported where the
  // library has none. target: for which call, null: for none yet.
  static Result<std::shared_ptr<const Algorithm>> of(Handles& handles, std::shared_ptr<const Problem> problem,
                                                     int64_t alignment, int64_t most_workspace,
                                                     cuda::CallTarget* target);

  int64_t workspace_bytes() const { return engine_->workspace; }
  int64_t bytes() const { return sizeof *this + 16384; }  // about, with what the library holds
  // A handle with its plan, leased for a run.
  struct Ready {
    Handles::Lease handle;
    DnnDescriptor plan = nullptr;
  };
  // The device's context is current for these two.
  Result<Ready> ready(cuda::CallTarget& target) const;
  Status run(const Ready& ready, const Pointers& pointers, void* stream) const;

  // Use of().
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
  std::vector<int64_t> ids_;  // of tensors and numbers
  std::optional<Descriptor> graph_;
  std::unique_ptr<Engine> engine_;
  mutable std::mutex making_;  // a plan, of engine_
  // By the number of the handle, whose holder alone comes here.
  mutable std::array<std::unique_ptr<Descriptor>, Handles::kMost> plans_;
};

// Forgets all algorithms. For tests.
void forget_algorithms();

}  // namespace tenon::cudnn
