// The passes. Each is one free function in the file of its name and builds a new graph from the old one; all keep the
// invariants of graph.h. pipeline.cc is the only place that knows their order. Tested by tests/passes/*.tn.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/builder.h"
#include "src/ir/graph.h"

namespace tenon {

// Rebuilds a graph node by node. `visit` gets each live node with its operands already renumbered, and returns the
// value that stands for it: builder.add(node) keeps it. Nodes no output needs are not visited (dead code).
Graph rewrite(const Graph& graph, const std::function<ValueId(Builder&, Node&& node, ValueId old)>& visit);

// Algebra and views: the list of rules stands at the top of simplify.cc. Needs nothing, keeps everything.
Graph simplify(const Graph& graph);
// Common subexpressions: equal op, operands and attributes become one node. Effects are left alone.
Graph cse(const Graph& graph);
// Evaluates small constant subgraphs (full, iota, constant of at most 64 elements through maps and views).
Graph fold(const Graph& graph);
// Batch norm after a convolution with frozen weights moves into the weights. Needs frozen params as constants.
Graph fold_batch_norm(const Graph& graph);
// Convolutions and poolings become channels_last; the transposes this takes are pushed out through maps,
// reductions and concatenations until they meet their inverse. Types of inputs and outputs do not change.
Graph layout(const Graph& graph);
// Composites become their bodies, and so do contractions that no back end takes. `keep` says who stays.
Graph expand(const Graph& graph, const std::function<bool(const Graph&, ValueId)>& keep);

// What depends on frozen params only, as a graph of its own: its outputs, in order, are the constants with null data of
// `main`. Views of params stay in main.
struct SplitGraph {
  Graph init;                    // inputs: the frozen params it needs
  std::vector<size_t> init_inputs;  // which input of the original graph each one is
  Graph main;                    // inputs: the others, and frozen params as constants
  std::vector<ValueId> folded;   // constants of main, one per output of init
  std::vector<std::pair<ValueId, size_t>> frozen;  // constants of main that are params themselves: (value, input)
};
SplitGraph split(const Graph& graph, const std::vector<bool>& frozen);

// Forms groups: Node::group and Graph::groups are set. Every node that is not a free view, input or constant gets one.
class Backend;
Graph fuse(const Graph& graph, const std::function<std::string(const Graph&, ValueId)>& backend_of,
           const std::function<bool(const Graph&, const std::vector<ValueId>&, ValueId, std::string*)>& absorb);

}  // namespace tenon
