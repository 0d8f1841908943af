// The passes. Each pass is one free function in the file of its name. It builds a new graph from the old one
// and keeps the invariants of graph.h. Only pipeline.cc knows their order. Tested by
// tests/golden/passes/*.tn.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/ir/builder.h"
#include "src/ir/graph.h"
#include "src/passes/placement.h"

namespace tenon {

// Rebuilds a graph node by node. `visit` gets each live node with renumbered operands and returns the value
// that replaces it; builder.add(node) keeps the node. Dead nodes are not visited. Inputs are declared first
// and not visited; `start` may then replace them with other values (map: old to new). Groups are dropped. A
// node that is kept keeps its name.
using Visit = std::function<ValueId(Builder& builder, Node&& node, ValueId old)>;
using Start = std::function<void(Builder& builder, std::vector<ValueId>& map)>;
Graph rewrite(const Graph& graph, const Visit& visit, const Start& start = {});

// Turns inputs into constants. params: the bytes of each input, dense or a permutation of dense rows; the
// input stays if they are null or have another layout. *frozen: which inputs became constants. The bytes are
// borrowed.
Graph freeze(const Graph& graph, std::span<const void* const> params, std::vector<bool>* frozen);
// Applies algebra and merges views; the rules are at the top of simplify.cc.
Graph simplify(const Graph& graph);
// Merges nodes with equal op, operands, attributes and type. Leaves nodes with effects alone.
Graph cse(const Graph& graph);
// Moves gathers of rows behind products, where they repeat rows.
Graph sink_gathers(const Graph& graph);
// Moves a batch norm after a convolution with constant weights into the weights.
Graph fold_batch_norm(const Graph& graph);
// Turns convolutions into channels_last, and poolings of images whose channels are last already. Moves the
// necessary transposes through maps, reductions and concatenations towards the outputs, until they meet their
// inverse. The types of inputs and outputs do not change.
Graph layout(const Graph& graph);
// Replaces composites, contractions and opaque nodes with a body for which keep() is false by their bodies, recursively.
Graph expand(const Graph& graph, const std::function<bool(const Graph&, ValueId)>& keep);
// Per value: whether indices are checked before it is computed. True of a value that updates an input, of one that depends on such a
// value, and, in a graph with donated inputs, of one that depends on an input of floats.
std::vector<bool> waits_for_checks(const Graph& graph);
// Checks the indices of values that wait for checks in nodes of their own, index_in, which depend on the indices alone, so they can run
// early. An update is written in place, and a donated input used again, only if no later step can fail.
Graph early_checks(const Graph& graph);
// Gives each gather that reads a shared gather one of its own: gather(gather(x, i), j) is one load in one kernel, while a shared gather
// would be stored. Only gathers share it, as the four corners of a bilinear resizing share two gathers of rows.
Graph duplicate_gathers(const Graph& graph);
// Gives every output a value that some group writes: inputs, constants, views and repeated outputs get a copy
// (a reshape to the same shape, for which fuse makes a group).
Graph materialize_outputs(const Graph& graph);

// The part that depends on constants only becomes a graph of its own, which runs once.
struct Split {
  Graph init;  // no inputs; its outputs are the data of `folded`, in order
  Graph main;
  std::vector<ValueId> folded;  // constants of main; their data is null until init has run
};
Split split_constants(const Graph& graph);

// Sets Node::group and Graph::groups. Every node except free views, literals, inputs and constants gets a
// group, and so do views that must be stored: outputs, and operands that a library cannot read through.
// apart: each node gets a group of its own.
Graph fuse(const Graph& graph, const Placement& placement, bool apart = false);

// Lets groups of loops compute cheap maps again that they read from another group, where they read no more bytes for it and the value
// need not be stored any more: the gradient of a normalisation reads its operands in 16 bits instead of copies of them in 32 bits. The
// graph has its groups.
Graph duplicate_maps(const Graph& graph, const Placement& placement);

// What recompute() did: the most bytes of intermediates alive at once before and after it, about; how many groups
// run again, and the bytes of what they make.
struct Recomputed {
  int64_t before = 0, after = 0;
  int steps = 0;
  int64_t bytes = 0;
};
// Lowers the bytes of intermediates to the budget, or as far as it can: groups run again where keeping what they
// make would take too much memory. The graph has its groups, and no pass may follow. Results stay the same bit
// for bit. Fails with unsupported if a size of an intermediate has no upper bound.
Result<Graph> recompute(const Graph& graph, int64_t budget, Recomputed* done);

}  // namespace tenon
