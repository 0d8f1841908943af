// What the rule files share: messages and attribute reading. A rule starts with `Rule r(c)`. Tested by
// tests/unit/ops/ops_test.cc.
#pragma once

#include "src/ir/builder.h"
#include "src/ops/rules.h"

namespace tenon {

// No library takes more, and what bodies, schedules and libraries make of two of them in int64 cannot overflow.
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
  // The attribute's constants; invalid when one of them is symbolic.
  Result<std::vector<int64_t>> ints(std::string_view name) const;
  Result<int64_t> integer(std::string_view name) const;
  // Operand 0's axis named by the attribute.
  Result<int> axis(std::string_view name) const;
  // a == b must hold: nothing, or the refusal. `what` names both in the message.
  Status agree(Dim a, Dim b, const std::string& what) const;
  // Whether size is a multiple of `by`, which the framework asks for as well.
  bool divides(Dim by, Dim size) const;
  // Every size at least `low`, where constant.
  Status at_least(std::span<const Dim> sizes, int64_t low, std::string_view name) const;
  // 0 <= start <= end <= size, as far as these are constant.
  Status bounds(Dim start, Dim end, Dim size) const;
  // Amounts of a window (kernel, stride, dilation, padding): within [low, kMostOfWindow], where constant.
  Status amounts(std::span<const Dim> amounts, int64_t low, std::string_view name) const;
  // One window along an axis: how many positions (size - dilation*(kernel-1) - 1) // stride + 1; refused
  // below 0.
  Result<Dim> positions(Dim size, Dim kernel, Dim stride, Dim dilation) const;
  // Indices (operand 1) have something to name along operand 0's axis, as far as both sizes are constant.
  Status has_element(int axis) const;
  // attribute layout, WHAT_first or WHAT_last: whether the latter.
  Result<bool> last(const std::string& what) const;
};

}  // namespace tenon
