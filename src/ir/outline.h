// Outlines: what a set of nodes computes, whatever its values are called and wherever the nodes are in the graph. The layers of a
// model and the updates of an optimizer repeat the same sets with other values. Tested by tests/unit/ir/outline_test.cc.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "src/ir/graph.h"
#include "src/ir/group.h"

namespace tenon {

class Outlines {
 public:
  // Both have to live as long as the object. The bindings of the graph must not change meanwhile; groups may.
  Outlines(const Graph& graph, const Uses& uses);

  // The outline of the members, which are in ascending order: bytes that only sets with equal loops share. They describe the members
  // and the views and literals that they read through (ops, attributes, types, operands), the types and strides of the stored values
  // that they read, and which members other nodes need, with their strides. Outlines of different graphs are not comparable.
  std::string of(std::span<const ValueId> members) const;

 private:
  const Graph& graph_;
  const Uses& uses_;
  std::unordered_map<ValueId, Dims> strides_;  // of the values that are bound with strides
};

}  // namespace tenon
