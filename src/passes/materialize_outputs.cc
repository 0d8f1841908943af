// See passes.h. Tested by tests/golden/passes/materialize_outputs.tn.
#include <set>

#include "src/ir/group.h"
#include "src/passes/passes.h"

namespace tenon {

Graph materialize_outputs(const Graph& graph) {
  Graph out = rewrite(graph, [](Builder& b, Node&& node, ValueId) { return b.add(std::move(node)); });
  Builder b(out);
  std::set<ValueId> taken;
  for (OutputBinding& o : out.outputs) {
    const Op& row = op(out.node(o.value).op);
    if (taken.insert(o.value).second && row.kind != Kind::input && !row.view) continue;
    Node copy;
    copy.op = *find_op("reshape");
    copy.inputs = {o.value};
    copy.attrs = {AttrValue(out.type(o.value).shape)};
    o.value = b.add(std::move(copy));
    taken.insert(o.value);
  }
  return out;
}

}  // namespace tenon
