// Placement: who runs the nodes of a graph. The passes ask; src/runtime/placement.h answers for the back ends. Answers may depend on
// nothing but the graph. Back ends are named: see Backend::name().
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
  // The back end that keeps the node as it stands; "": its body takes its place. Views and inputs have none.
  virtual std::string keeps(const Graph& graph, ValueId node) const = 0;
  // The back end that runs a node that is neither view nor literal; "none": no back end does.
  virtual std::string runs(const Graph& graph, ValueId node) const = 0;
  // Whether `node` may join a group of `backend` with these members, in ascending order; `why` becomes the reason. Members of
  // several groups are those of their union; none: the node alone.
  virtual bool joins(const Graph& graph, const Uses& uses, const std::string& backend,
                     std::span<const ValueId> members, ValueId node, std::string* why) const = 0;
  // Whether `node`, run by `backend`, reads its operand, a strided view, where it lies.
  virtual bool reads(const Graph& graph, const std::string& backend, ValueId node, ValueId operand) const = 0;
  // The value that stands for a node of the graph before groups form; operands are values of the builder already.
  virtual ValueId legalize(Builder& b, Node&& node, const Graph& graph, ValueId old) const = 0;
  virtual std::string_view loops() const = 0;  // the back end that runs maps, reductions and moves
  virtual std::string_view last_resort()
      const = 0;  // runs single nodes that no schedule covers; "": there is none
};

}  // namespace tenon
