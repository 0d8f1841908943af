// See passes.h. Tested by tests/golden/passes/duplicate_gathers.tn.
#include <algorithm>
#include <functional>
#include <vector>

#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

bool is_gather(const Graph& graph, ValueId v) { return graph.node(v).op == ops::gather; }

// Per value: whether it is a gather that only gathers of its elements read, in the end several.
std::vector<bool> shared_gathers(const Graph& graph) {
  const auto users = graph.users();
  std::vector<bool> is_output(graph.nodes.size(), false), shared(graph.nodes.size(), false);
  for (const OutputBinding& o : graph.outputs) is_output[o.value] = true;
  for (ValueId v = static_cast<ValueId>(graph.nodes.size()); v-- > 0;) {
    if (!is_gather(graph, v) || is_output[v] || users[v].empty()) continue;
    const bool only = std::ranges::all_of(
        users[v], [&](ValueId u) { return is_gather(graph, u) && graph.node(u).inputs[1] != v; });
    shared[v] = only && (users[v].size() > 1 || shared[users[v][0]]);
  }
  return shared;
}

}  // namespace

Graph duplicate_gathers(const Graph& graph) {
  const std::vector<bool> shared = shared_gathers(graph);
  if (std::ranges::find(shared, true) == shared.end()) return graph;
  // The operand of a copy of `old`, whose operand is `operand` in the new graph.
  const std::function<ValueId(Builder&, ValueId, ValueId)> own = [&](Builder& b, ValueId old,
                                                                     ValueId operand) {
    const ValueId from = graph.node(old).inputs[0];
    if (!shared[from]) return operand;
    Node copy = b.graph().node(operand);
    copy.name.clear();
    copy.inputs[0] = own(b, from, copy.inputs[0]);
    return b.add(std::move(copy));
  };
  return rewrite(graph, [&](Builder& b, Node&& node, ValueId old) {
    if (is_gather(graph, old)) node.inputs[0] = own(b, old, node.inputs[0]);
    return b.add(std::move(node));
  });
}

}  // namespace tenon
