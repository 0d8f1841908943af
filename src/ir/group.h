// Questions about sets of nodes: which values leave the set, which values it reads, and which values are
// stored in memory at all. Tested by tests/unit/ir/ir_test.cc.
#pragma once

#include <span>
#include <vector>

#include "src/ir/graph.h"
#include "src/ir/op.h"

namespace tenon {

// Written out at every use instead of being stored: full, iota, dim.
inline bool is_literal(const Graph& graph, ValueId v) {
  const Op& row = op(graph.node(v).op);
  return row.kind == Kind::input && row.name != "input" && row.name != "constant";
}
// Computed where it is read: literals and views, unless a group owns them.
inline bool is_inlined(const Graph& graph, ValueId v) {
  return graph.node(v).group < 0 && (is_literal(graph, v) || op(graph.node(v).op).view);
}

// Row-major strides in elements.
Dims dense_strides(DimTable& dims, const Dims& shape);
// The strides an output is bound to. The strides of an output without elements mean nothing and may be 0:
// such an output counts as dense.
std::optional<Dims> output_strides(const Graph& graph, const OutputBinding& output);
// The strides of a stored value: those of its input or output binding, else dense.
Dims stored_strides(const Graph& graph, ValueId v);

// Which nodes read a value, and whether it is an output, for one graph.
class Uses {
 public:
  explicit Uses(const Graph& graph);
  std::span<const ValueId> users(ValueId v) const { return users_[v]; }
  bool is_output(ValueId v) const { return is_output_[v]; }

 private:
  std::vector<std::vector<ValueId>> users_;
  std::vector<bool> is_output_;
};

// Members whose value is an output of the graph or is read by a node outside the group, directly or through
// views that belong to no group. `members` is ascending.
std::vector<ValueId> outputs_of(const Graph& graph, const Uses& uses, std::span<const ValueId> members);
// Stored values that the members read, directly or through views; ascending, without literals. *walked: the
// number of nodes in the group and between the group and those values.
std::vector<ValueId> inputs_of(const Graph& graph, std::span<const ValueId> members,
                               size_t* walked = nullptr);
// The members of each group, by group number.
std::vector<std::vector<ValueId>> members_of_groups(const Graph& graph);

}  // namespace tenon
