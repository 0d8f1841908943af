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
  // A graph reads each input and writes each output once. Slices and gathers read no more of an input than they take.
  double bytes = 0;
  // Each op of the graph reads its operands and writes its result. A composite is one op.
  double apart_bytes = 0;
  // The probe's rate of multiply-adds bounds the graph's rate. It does not bound products of other types than f32, nor convolutions and
  // attention, which may compute fewer multiply-adds than are counted.
  bool peak_holds = true;
  std::vector<std::string> expensive;  // rows that cost as much as exp
};

Work work_of(const Graph& graph, std::span<const int64_t> symbols);
// The graph with `neg` in place of every expensive row of one operand, to measure what these rows cost.
Graph without_expensive(const Graph& graph);

}  // namespace tenon::cli
