// See passes.h. Merges two nodes if their op, operands, attributes and type are equal. Tested by
// tests/golden/passes/cse.tn.
#include <map>

#include "src/ir/text.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

bool same(const Node& a, const Node& b) {
  if (a.op != b.op || a.inputs != b.inputs || !(a.type == b.type) || a.attrs.size() != b.attrs.size())
    return false;
  for (size_t i = 0; i < a.attrs.size(); ++i)
    if (!same_attr(a.attrs[i], b.attrs[i])) return false;
  return true;
}

}  // namespace

Graph cse(const Graph& graph) {
  std::multimap<std::pair<OpId, std::vector<ValueId>>, ValueId> seen;
  return rewrite(graph, [&](Builder& b, Node&& node, ValueId) {
    const Op& row = op(node.op);
    if (row.effect || row.name == "input") return b.add(std::move(node));
    auto key = std::pair(node.op, node.inputs);
    auto [first, last] = seen.equal_range(key);
    for (auto it = first; it != last; ++it)
      if (same(b.graph().node(it->second), node)) return it->second;
    ValueId v = b.add(std::move(node));
    seen.emplace(std::move(key), v);
    return v;
  });
}

}  // namespace tenon
