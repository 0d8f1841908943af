// compile: turns a graph into executables. Runs the passes, asks the back ends for groups, has the groups
// built, computes the part that depends on constants only, and copies constants to the device. Sizes are
// still symbols; plans come later (plan.h). Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/ir/graph.h"
#include "src/runtime/compile/options.h"
#include "src/runtime/plan/plan.h"
#include "src/runtime/plan/tensor.h"

namespace tenon {

// A graph with its groups built. `source` points into `graph`, so a BuiltGraph does not move.
struct BuiltGraph {
  BuiltGraph() = default;
  BuiltGraph(const BuiltGraph&) = delete;
  Graph graph;
  PlanSource source;
  std::unique_ptr<BuiltGraph> copies;  // of source.copies
  int64_t nodes = 0, nodes_fused = 0, kernels = 0, kernels_compiled = 0;
};

struct Compiled {
  BuiltGraph main;
  std::vector<bool> frozen;                     // per input: whether it became a constant
  std::vector<std::unique_ptr<Arena>> folded;   // the bytes of constants computed once
  DeviceRuntime* runtime = nullptr;             // null: the CPU
  std::vector<std::shared_ptr<void>> uploaded;  // the constants on the device
};

// parallel: runs the part that depends on constants only, for programs on the CPU. params: as in
// Program::make(), with options.freeze; they must outlive the result. Do not call it from within a run. Does
// not run the passes if an earlier process has left their result on disk (kept_graph.h).
Result<std::unique_ptr<Compiled>> compile(const Graph& graph, const ProgramOptions& options,
                                          Parallel& parallel, std::span<const Tensor> params);

}  // namespace tenon
