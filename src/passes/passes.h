// The passes. Each is one free function in the file of its name and builds a new graph from the old one; all keep the
// invariants of graph.h. pipeline.cc is the only place that knows their order. Tested by tests/golden/passes/*.tn.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/ir/builder.h"
#include "src/ir/graph.h"
#include "src/passes/placement.h"

namespace tenon {

// Rebuilds a graph node by node. `visit` gets each live node with its operands already renumbered, and returns the
// value that stands for it: builder.add(node) keeps it. Nodes that no output needs are not visited (dead code); inputs
// are declared first and are not visited; `start` may then put other values in their place (map: old to new).
// Groups are dropped. Names survive where the node does.
using Visit = std::function<ValueId(Builder& builder, Node&& node, ValueId old)>;
using Start = std::function<void(Builder& builder, std::vector<ValueId>& map)>;
Graph rewrite(const Graph& graph, const Visit& visit, const Start& start = {});

// Inputs become constants. params: the bytes of each input, dense or a permutation of dense rows; null, or another layout: the input
// stays. frozen: which inputs became constants. The bytes are borrowed.
Graph freeze(const Graph& graph, std::span<const void* const> params, std::vector<bool>* frozen);
// Algebra and views: the rules stand at the top of simplify.cc.
Graph simplify(const Graph& graph);
// Equal op, operands and attributes become one node. Effects are left alone.
Graph cse(const Graph& graph);
// Batch norm after a convolution whose weights are constants moves into the weights.
Graph fold_batch_norm(const Graph& graph);
// Convolutions and poolings become channels_last; the transposes this takes are pushed out through maps,
// reductions and concatenations until they meet their inverse. Types of inputs and outputs do not change.
Graph layout(const Graph& graph);
// Composites and contractions for which keep() is false become their bodies, all the way down.
Graph expand(const Graph& graph, const std::function<bool(const Graph&, ValueId)>& keep);
// Every output becomes a value that some group writes: inputs, constants, views and repeated outputs get a copy
// (a reshape to the same shape, kept by giving it a group in fuse).
Graph materialize_outputs(const Graph& graph);

// What depends on constants only becomes a graph of its own, run once.
struct Split {
  Graph init;  // no inputs; its outputs are the data of `folded`, in order
  Graph main;
  std::vector<ValueId> folded;  // constants of main whose data is still null
};
Split split_constants(const Graph& graph);

// Sets Node::group and Graph::groups: every node that is not a free view, literal, input or constant gets one, and so
// do views that must exist in memory (outputs, operands no library can read through).
// apart: every node in a group of its own.
Graph fuse(const Graph& graph, const Placement& placement, bool apart = false);

}  // namespace tenon
