// See passes.h. Tested by tests/golden/passes/duplicate_gathers.tn.
#include <algorithm>
#include <functional>
#include <vector>

#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

bool is_gather(const Graph& graph, ValueId v) { return graph.node(v).op == ops::gather; }

// Per value: whether it is a gather that only gathers of its elements read, in the end several.
std::vector<bool> shared_gathers(const Graph& graph) {
  const Uses uses(graph);
  std::vector<bool> shared(graph.nodes.size(), false);
  for (ValueId v = static_cast<ValueId>(graph.nodes.size()); v-- > 0;) {
    const std::span<const ValueId> users = uses.users(v);
    if (!is_gather(graph, v) || uses.is_output(v) || users.empty()) continue;
    const bool only = std::ranges::all_of(
        users, [&](ValueId u) { return is_gather(graph, u) && graph.node(u).inputs[1] != v; });
    shared[v] = only && (users.size() > 1 || shared[users[0]]);
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
