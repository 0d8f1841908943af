// Reverse-mode gradients of graphs. The rules are the gradient column of the op table (src/ops/gradients). A row
// without a rule is differentiated through its body. Sizes may be symbolic. Tested by
// tests/unit/passes/gradient_test.cc and tests/golden/passes/gradient_*.tn.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/ir/builder.h"

namespace tenon {

// Adds nodes to b's graph that compute the derivative of L by each value of `wrt`, where L is the sum over the
// targets of <head, target>. heads: empty, or one per target; kNoValue stands for ones. Returns one value per
// entry of wrt, of its type; zeros if no target depends on it. A value of wrt need not be an input.
// Fails with invalid if a value is no float or a head's type is not its target's, and with unsupported if a
// derivative is not known; the message names the node. Nodes may have been added then.
Result<std::vector<ValueId>> add_gradients(Builder& b, std::span<const ValueId> targets,
                                           std::span<const ValueId> heads, std::span<const ValueId> wrt);

struct GradientOptions {
  std::optional<std::vector<int>> targets = {};  // positions of outputs; absent: all floats
  std::optional<std::vector<int>> wrt = {};      // positions of inputs; absent: all floats
  bool heads = false;  // for each target an input d_NAME of its type follows the graph's inputs; else ones
  bool keep_outputs = false;  // the graph's outputs come before the gradients; updates become plain outputs
};
// A graph of its own whose outputs are the gradients, in the order of wrt. Fails as add_gradients does.
Result<Graph> gradient(const Graph& graph, const GradientOptions& options = {});

}  // namespace tenon
