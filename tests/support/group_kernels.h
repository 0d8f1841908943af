// The kernels that a graph, given as text, becomes as one group. Used by the tests of jit/transform.
#pragma once

#include <string>
#include <vector>

#include "jit/pipeline.h"
#include "src/ir/group.h"
#include "src/ir/text.h"

namespace tenon {

inline Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  return *graph;
}

// The kernels of all nodes as one group, for the CPU.
inline std::vector<jit::LoweredKernel> kernels_of(const Graph& graph) {
  std::vector<ValueId> members, outputs;
  for (ValueId v = 0; v < graph.nodes.size(); ++v)
    if (op(graph.node(v).op).kind != Kind::input) members.push_back(v);
  for (const OutputBinding& o : graph.outputs) outputs.push_back(o.value);
  std::ranges::sort(outputs);
  auto strides = [&](ValueId v) { return std::optional(dense_strides(*graph.dims, graph.type(v).shape)); };
  auto kernels = jit::make_kernels({graph, members, outputs, strides}, /*trial=*/true);
  TENON_CHECK(kernels.ok(), kernels.status().message());
  return std::move(*kernels);
}

}  // namespace tenon
