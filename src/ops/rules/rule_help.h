// Helper functions of the rule files: messages and reading of attributes. A rule starts with `Rule r(c)`.
// Tested by tests/unit/ops/ops_test.cc.
#pragma once

#include "src/ir/builder.h"
#include "src/ops/rules/rules.h"

namespace tenon {

// No library takes larger amounts. Bodies, schedules and libraries can combine two of them in int64 without
// overflow.
inline constexpr int64_t kMostOfWindow = INT32_MAX;

struct Rule {
  InferContext& c;
  explicit Rule(InferContext& context) : c(context) {}

  int operands() const { return static_cast<int>(c.node.inputs.size()); }
  const Dims& shape(int i) const { return c.operand(i).shape; }
  int rank(int i = 0) const { return c.operand(i).rank(); }
  std::string print(std::span<const Dim> dims) const { return "[" + c.dims.print(dims) + "]"; }
  std::string print(Dim d) const { return c.dims.print(d); }

  Status refuse(const std::string& why) const { return invalid(describe(c.graph, c.node) + ": " + why); }
  Status decline(const std::string& why) const { return unsupported(describe(c.graph, c.node) + ": " + why); }
  Status prefix(const Status& status) const { return status.at(describe(c.graph, c.node)); }

  const Dims& dims(std::string_view name) const { return attr_as<Dims>(c.node, name); }
  // The attribute's constants; invalid if one of them is symbolic.
  Result<std::vector<int64_t>> ints(std::string_view name) const;
  Result<int64_t> integer(std::string_view name) const;
  // The axis of operand 0 that the attribute names.
  Result<int> axis(std::string_view name) const;
  // Fails unless a == b holds. `what` names both in the message.
  Status agree(Dim a, Dim b, const std::string& what) const;
  // Whether `size` is a multiple of `by`, which the framework requires too.
  bool divides(Dim by, Dim size) const;
  // Fails if a constant size is below `low`.
  Status at_least(std::span<const Dim> sizes, int64_t low, std::string_view name) const;
  // Fails unless 0 <= start <= end <= size, as far as these are constant.
  Status bounds(Dim start, Dim end, Dim size) const;
  // Checks the amounts of a window (kernel, stride, dilation, padding): a constant must be in [low,
  // kMostOfWindow].
  Status amounts(std::span<const Dim> amounts, int64_t low, std::string_view name) const;
  // The number of positions of a window along an axis: (size - dilation*(kernel-1) - 1) // stride + 1. Fails
  // if that is negative.
  Result<Dim> positions(Dim size, Dim kernel, Dim stride, Dim dilation) const;
  // Fails if there are indices (operand 1) but operand 0's axis is empty, as far as both sizes are constant.
  Status has_element(int axis) const;
  // Whether the attribute layout is WHAT_last; fails if it is neither that nor WHAT_first.
  Result<bool> last(const std::string& what) const;
};

}  // namespace tenon
