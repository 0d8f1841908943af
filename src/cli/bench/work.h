// Work: the operations and bytes of a graph at one set of sizes, counted on the graph and not measured. Tested by tests/bench_test.py.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/ir/graph.h"

namespace tenon::cli {

struct Work {
  int nodes = 0;          // that compute or copy, composites taken apart
  double operations = 0;  // as in src/runtime/cost.h
  // Of inputs and outputs, each read or written once; of an input no more than slices and gathers read.
  double bytes = 0;
  // If each op of the graph reads its operands and writes its result. A composite is one op.
  double apart_bytes = 0;
  // Whether no rate exceeds the probe's of multiply-adds. False for products of other types than f32, and where fewer may be computed than
  // are counted.
  bool peak_holds = true;
  std::vector<std::string> expensive;  // rows that cost as much as exp
};

Work work_of(const Graph& graph, std::span<const int64_t> symbols);
// The graph with `neg` in place of every expensive row of one operand, to measure what these rows cost.
Graph without_expensive(const Graph& graph);

}  // namespace tenon::cli
