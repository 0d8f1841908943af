// Choice: the engine that cuDNN's heuristics named first for a problem and that can be used, with execution plans of it. Made
// once per problem, device and alignment of the pointers, also when several threads ask at once, and kept, those that were
// asked for last. Any thread; a run takes no lock, and makes a plan only with a handle that it has none for yet.
// Tested by tests/cudnn_test.cc and tests/cudnn_graph_test.cc.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/cuda/recording.h"
#include "backends/cudnn/handles.h"
#include "backends/cudnn/problem.h"

namespace tenon::cudnn {

// Of a call, on the device.
struct Pointers {
  const void *x, *w;
  void* y;
  void* workspace;
};

class Choice {
 public:
  // The best for pointers of which all are multiples of `alignment` bytes and for so much workspace. unsupported where the
  // library has none. Engines whose results differ from run to run are left out, as are those that compute in fewer bits
  // than the dtype: TF32 among them, unless the problem allows it. One that has to compile first is taken where there is no
  // other. target: for which call, null: for none yet.
  static Result<std::shared_ptr<const Choice>> of(Handles& handles, const Problem& problem, int64_t alignment,
                                                  int64_t most_workspace, cuda::CallTarget* target);

  int64_t workspace_bytes() const { return workspace_; }
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
  Choice(Handles& handles, const Problem& problem, int64_t alignment, int64_t most_workspace);

 private:
  Status may_make(cuda::CallTarget& target) const;
  Status describe(const Handle& handle);
  Status choose(const Handle& handle);
  Result<std::vector<Descriptor>> engines(DnnHeuristic mode) const;
  Result<bool> takes(const Handle& handle, Descriptor& config);
  Result<std::unique_ptr<Descriptor>> plan(const Handle& handle, const Descriptor& config,
                                           Status* refused) const;
  Status make_plan(const Handle& handle) const;
  std::unique_ptr<Descriptor>& plan_of(const Handle& handle) const {
    return plans_[static_cast<size_t>(handle.number())];
  }

  Handles& handles_;
  const Problem problem_;
  const int64_t alignment_, most_workspace_;
  std::vector<Descriptor> parts_;  // of the graph, which is the last one
  std::optional<Descriptor> config_;
  int64_t workspace_ = 0;
  std::string refusal_;        // of the first engine that could not be used
  mutable std::mutex making_;  // a plan, of config_
  // By the number of the handle, whose holder alone comes here.
  mutable std::array<std::unique_ptr<Descriptor>, Handles::kMost> plans_;
};

// Forgets all choices. For tests.
void forget_choices();

}  // namespace tenon::cudnn
