// Placement: which back end runs a node of a graph. Passes ask this interface; src/runtime/compile/placement.h
// implements it. Answers depend only on the graph. Back ends are named by Backend::name().
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/ir/builder.h"
#include "src/ir/graph.h"
#include "src/ir/group.h"

namespace tenon {

class Placement {
 public:
  virtual ~Placement() = default;
  // The back end that keeps the node as it is; "" if the node's body replaces it. Views and inputs give "".
  virtual std::string keeps(const Graph& graph, ValueId node) const = 0;
  // The back end that runs a node that is neither view nor literal; "none" if no back end does.
  virtual std::string runs(const Graph& graph, ValueId node) const = 0;
  // Whether `node` may join a group of `backend` with these members, which are in ascending order. To merge
  // several groups, pass the union of their members; no members: the node alone. *why gets the reason. The back end of
  // loops() accepts all sets with the same outline (src/ir/outline.h) or none of them.
  virtual bool joins(const Graph& graph, const Uses& uses, const std::string& backend,
                     std::span<const ValueId> members, ValueId node, std::string* why) const = 0;
  // Whether `node`, run by `backend`, reads `operand`, a strided view, in place.
  virtual bool reads(const Graph& graph, const std::string& backend, ValueId node, ValueId operand) const = 0;
  // The value that replaces a node before groups form. The node's operands are values of the builder.
  virtual ValueId legalize(Builder& b, Node&& node, const Graph& graph, ValueId old) const = 0;
  // Whether a run reports operands that are a fault, such as an index out of range.
  virtual bool finds_faults() const = 0;
  virtual std::string_view loops() const = 0;        // the back end that runs maps, reductions and moves
  virtual std::string_view last_resort() const = 0;  // runs single nodes that no schedule covers; "": none
};

}  // namespace tenon
