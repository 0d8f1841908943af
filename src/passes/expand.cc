// See passes.h. Bodies may contain composites, so the pass repeats until nothing is left to expand. Tested by
// tests/golden/passes/expand.tn.
#include <algorithm>
#include <functional>

#include "src/passes/passes.h"

namespace tenon {

Graph expand(const Graph& graph, const std::function<bool(const Graph&, ValueId)>& keep) {
  Graph current = graph;
  while (true) {
    std::vector<bool> expands(current.nodes.size(), false);
    for (ValueId v = 0; v < current.nodes.size(); ++v) {
      const Op& row = op(current.node(v).op);
      const bool may = row.kind == Kind::composite || row.kind == Kind::contract || row.kind == Kind::opaque;
      expands[v] = may && row.has_body(current, current.node(v)) && !keep(current, v);
    }
    if (std::ranges::none_of(expands, std::identity())) return current;
    current = rewrite(current, [&](Builder& b, Node&& node, ValueId old) {
      if (!expands[old]) return b.add(std::move(node));
      const Op& row = op(node.op);
      const ValueId body = row.body(b, node);
      TENON_CHECK(b.type(body) == node.type, std::string("the body of ") + std::string(row.name) +
                                                 " has type " + b.graph().print_type(b.type(body)) +
                                                 " instead of " + b.graph().print_type(node.type));
      return body;
    });
  }
}

}  // namespace tenon
