// Program: one graph, optimised and fused once with symbolic sizes, and the plans made from it. Any number of
// threads may call any function at once. Tested by tests/unit/runtime/run_test.cc and
// tests/unit/runtime/cache_test.cc.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/backend/memory.h"
#include "src/base/status.h"
#include "src/ir/graph.h"
#include "src/ops/eval/host_tensor.h"
#include "src/runtime/compile/options.h"
#include "src/runtime/plan/cache.h"
#include "src/runtime/plan/tensor.h"

namespace tenon {

struct ProgramStats {
  int64_t nodes = 0;             // nodes in groups: what the optimised graph has left to run
  int64_t nodes_fused = 0;       // nodes that share a group with another node
  int64_t kernels = 0;           // kernels and library calls per run
  int64_t kernels_compiled = 0;  // kernels that went through the compiler for this program
  int64_t steps = 0;
  int64_t reference_steps = 0;  // steps that the evaluator runs
  int64_t workspace_bytes = 0;  // of the newest plan
  PlanStats plans = {};
  double compile_ms = 0;
};

class Program {
 public:
  // params: with options.freeze, one per graph input, with null data for inputs that are not frozen. The
  // bytes must live as long as the program, or until the next update_params.
  static Result<std::shared_ptr<Program>> make(const Graph& graph, const ProgramOptions& options,
                                               std::span<const Tensor> params);
  ~Program();
  // Checks every tensor, then runs. outputs: one per output that updates no input. Leaves outputs untouched on failure, except for invalid operands found by
  // kernels. Frozen inputs may have null data. stream: a stream of the program's device; run() queues the
  // work there and returns before it is done.
  // With a host, which only the CPU supports, outputs may have null data.
  Status run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream = nullptr,
             Plan::Host* host = nullptr);
  // Replaces the bytes of the frozen params: folds and packs again. Calls of run() under way finish with the
  // former bytes; when this function returns, nothing reads those any more. Do not call it from within a run.
  Status update_params(std::span<const Tensor> params);
  void set_limits(const PlanLimits& limits);
  std::string explain(bool json) const;
  ProgramStats stats() const;
  const Graph& graph() const;

 private:
  struct Impl;
  Program(const Graph& graph, const ProgramOptions& options);
  // outputs: one per output of the graph, for updates the input's tensor.
  Status run_all(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream,
                 Plan::Host* host);
  // checked: called when all checks have passed, before anything is written.
  Status run_here(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream,
                  Plan::Host* host, const std::function<void()>& checked = {});
  Status run_verified(std::span<const Tensor> inputs, std::span<const Tensor> outputs, Plan::Host* host);
  void keep_params(std::span<const Tensor> params);

  const Graph source_;  // the host's graph, with its own table of sizes
  const int64_t number_;
  std::mutex update_;                              // guards options_ and params_; runs do not take it
  ProgramOptions options_;                         // options_.limits are the current limits
  std::vector<std::optional<HostTensor>> params_;  // the frozen ones, kept for verified runs
  std::atomic<int> verified_{0};                   // how many runs have been verified
  std::atomic<Impl*> impl_{nullptr};
};

}  // namespace tenon
