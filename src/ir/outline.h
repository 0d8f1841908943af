// Outlines: what a set of nodes computes, whatever its values are called and wherever the nodes are in the graph. The layers of a
// model and the updates of an optimizer repeat the same sets with other values. Tested by tests/unit/ir/outline_test.cc.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/ir/graph.h"
#include "src/ir/group.h"

namespace tenon {

class Outlines {
 public:
  // The strides of a stored value; nullopt for a value that loops read through.
  using StridesOf = std::function<std::optional<Dims>(ValueId)>;

  // Both have to live as long as the object. The bindings of the graph must not change meanwhile; groups may. Without `strides_of`,
  // values are stored as fusion assumes (is_inlined(), stored_strides()).
  Outlines(const Graph& graph, const Uses& uses);
  Outlines(const Graph& graph, const Uses& uses, const StridesOf& strides_of);
  Outlines(const Outlines&) = delete;

  // The outline of the members, which are in ascending order: bytes that only sets with equal loops share. They describe the members
  // and the views and literals that they read through (ops, attributes, types, operands), the types and strides of the stored values
  // that they read, and which members other nodes need, with their strides. Outlines of different graphs are not comparable.
  // values, if given, gets the members and the values that they read, in an order in which sets of equal outlines correspond.
  std::string of(std::span<const ValueId> members, std::vector<ValueId>* values = nullptr) const;

 private:
  const Graph& graph_;
  const Uses& uses_;
  StridesOf operands_, outputs_;  // of the values that a set reads, and of its members that other nodes need
};

}  // namespace tenon
