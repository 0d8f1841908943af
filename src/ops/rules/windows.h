// windows: facts about the windows of convolutions, for passes and back ends. Tested by tests/golden/passes/layout_*.tn and
// tests/unit/backends/products_test.cc.
#pragma once

#include <span>

#include "src/ir/graph.h"
#include "src/ops/rows/names.h"

namespace tenon {

// Whether the node is a convolution, or its gradient by the weight, without padding or groups whose windows are single pixels. It may skip
// pixels.
inline bool has_windows_of_one(const Graph& graph, const Node& node) {
  const bool of_weights = node.op == ops::convolution_weight_gradient;
  if (node.op != ops::convolution && !of_weights) return false;
  const Dims& windows = of_weights ? node.type.shape : graph.type(node.inputs[1]).shape;
  const auto none = [&](std::string_view name) { return all_are(attr_as<Dims>(node, name), 0); };
  return all_are(std::span(windows).subspan(2), 1) && none("padding") && none("padding_high") &&
         (of_weights || none("output_padding")) && attr_as<Dim>(node, "groups") == Dim(1);
}

}  // namespace tenon
