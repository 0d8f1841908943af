// Program: one graph, optimised and fused once with symbolic sizes, and the plans made from it. Everything may be called
// from any number of threads at once. Tested by tests/unit/runtime/run_test.cc and tests/unit/runtime/cache_test.cc.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/ir/graph.h"
#include "src/ops/host_tensor.h"
#include "src/runtime/backend.h"
#include "src/runtime/cache.h"
#include "src/runtime/memory.h"
#include "src/runtime/options.h"

namespace tenon {

struct ProgramStats {
  int64_t nodes = 0;             // in groups: what the optimised graph has left to run
  int64_t nodes_fused = 0;       // those of them that share a group with another node
  int64_t kernels = 0;           // kernels and library calls per run
  int64_t kernels_compiled = 0;  // kernels that went through the compiler for this program
  int64_t steps = 0;
  int64_t reference_steps = 0;  // those of them that the evaluator runs
  int64_t workspace_bytes = 0;  // of the newest plan
  int64_t specialized = 0;      // Specialization::kept
  int64_t specialize_refused = 0;
  PlanStats plans = {};
  double compile_ms = 0;
};

class Program {
 public:
  // params: one per graph input when options.freeze, data null for the others; their bytes must outlive the program
  // or the next update_params.
  static Result<std::shared_ptr<Program>> make(const Graph& graph, const ProgramOptions& options,
                                               std::span<const Tensor> params);
  ~Program();
  // Checks every tensor, then runs. Outputs are untouched on failure. Frozen inputs may have null data.
  // stream: of the program's device; the work is queued there, and this returns before it is done.
  Status run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream = nullptr);
  // New bytes for the frozen params: folds and packs again. Calls of run() under way end with the former ones; when this
  // returns, nobody reads those any more. Not from within a run.
  Status update_params(std::span<const Tensor> params);
  void set_limits(const PlanLimits& limits);
  std::string explain(bool json) const;
  ProgramStats stats() const;
  const Graph& graph() const;

 private:
  struct Impl;
  Program(const Graph& graph, const ProgramOptions& options);
  Status run_here(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream);
  Status run_verified(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void keep_params(std::span<const Tensor> params);

  const Graph source_;  // as the host gave it
  const int64_t number_;
  std::mutex update_;                              // of what follows; runs do not take it
  ProgramOptions options_;                         // its limits are those in force
  std::vector<std::optional<HostTensor>> params_;  // frozen ones, of a program that is verified
  std::atomic<int> verified_{0};                   // runs
  std::atomic<Impl*> impl_{nullptr};
};

}  // namespace tenon
