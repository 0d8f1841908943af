// Compares a program with the evaluator: whether they differ, which pass or back end is at fault, and the
// smallest graph that shows the difference. Slow; used for runs that a host wants verified, and for `tenon
// verify`. Tested by tests/unit/runtime/difference_test.cc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/ops/eval/host_tensor.h"
#include "src/runtime/program.h"

namespace tenon {

// A dense copy of a tensor whose size has been checked.
HostTensor host_copy(const Tensor& tensor);
// Copies the values to the memory of a tensor of the same type.
void write_back(const HostTensor& values, const Tensor& tensor);

// "" if `got` is right by the accuracy rule, else a sentence about the first wrong element.
Result<std::string> difference_of(const Graph& graph, std::span<const HostTensor> inputs,
                                  std::span<const HostTensor> got);

struct Difference {
  std::string sentence;  // the sentence of difference_of for the smallest graph
  std::string cause;     // "the pass fuse": without it the result is right; "": no single removal helps
  Graph graph;           // the smallest graph found: outputs dropped, values made inputs
  std::vector<HostTensor> inputs;  // of `graph`
};
// Compiles and runs the graph with `options`, and searches for the smallest part that differs. nullopt:
// nothing differs. Fails if the graph itself cannot be compiled or run.
Result<std::optional<Difference>> find_difference(const Graph& graph, std::span<const HostTensor> inputs,
                                                  const ProgramOptions& options);
// The text of a report, including the graph.
std::string report(const Difference& difference);

}  // namespace tenon
