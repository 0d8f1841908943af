// See passes.h. Bodies may contain composites, so the pass repeats until nothing is left to expand. Tested by
// tests/golden/passes/expand.tn.
#include "src/passes/passes.h"

namespace tenon {

Graph expand(const Graph& graph, const std::function<bool(const Graph&, ValueId)>& keep) {
  Graph current = graph;
  for (bool changed = true; changed;) {
    changed = false;
    current = rewrite(current, [&](Builder& b, Node&& node, ValueId old) {
      const Op& row = op(node.op);
      const bool may = row.kind == Kind::composite || row.kind == Kind::contract || row.kind == Kind::opaque;
      if (!may || !row.has_body(current, current.node(old)) || keep(current, old))
        return b.add(std::move(node));
      changed = true;
      const ValueId body = row.body(b, node);
      TENON_CHECK(b.type(body) == node.type, std::string("the body of ") + std::string(row.name) +
                                                 " has type " + b.graph().print_type(b.type(body)) +
                                                 " instead of " + b.graph().print_type(node.type));
      return body;
    });
  }
  return current;
}

}  // namespace tenon
