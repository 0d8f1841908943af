// A program against the evaluator: whether they differ, what is at fault, and the smallest graph that shows it. Slow; for
// runs that a host wants verified, and for `tenon verify`. Tested by tests/unit/runtime/difference_test.cc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/ops/host_tensor.h"
#include "src/runtime/program.h"

namespace tenon {

// The elements of a tensor whose size was checked, dense.
HostTensor host_copy(const Tensor& tensor);

// "" where `got` is right by the accuracy rule, else a sentence about the first element that is not.
Result<std::string> difference_of(const Graph& graph, std::span<const HostTensor> inputs,
                                  std::span<const HostTensor> got);

struct Difference {
  std::string sentence;  // of difference_of, for the smallest graph
  std::string cause;     // "the pass fuse": without it the smallest graph is right; "": nothing alone helps
  Graph graph;           // the smallest graph found: outputs dropped, values made inputs
  std::vector<HostTensor> inputs;  // of it
};
// Compiles and runs the graph as `options` say, and looks for the smallest part that differs. nullopt: nothing does. Fails where
// the graph itself cannot be compiled or run.
Result<std::optional<Difference>> find_difference(const Graph& graph, std::span<const HostTensor> inputs,
                                                  const ProgramOptions& options);
// The text of a report, the graph's included.
std::string report(const Difference& difference);

}  // namespace tenon
