// See passes.h. Tested by tests/passes/*.tn.
#include "src/passes/passes.h"

namespace tenon {

Graph rewrite(const Graph& graph, const Visit& visit) {
  std::vector<bool> live(graph.nodes.size(), false);
  for (const OutputBinding& o : graph.outputs) live[o.value] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (live[i])
      for (ValueId v : graph.nodes[i].inputs) live[v] = true;
  for (const InputBinding& i : graph.inputs) live[i.value] = true;

  Graph out;
  out.name = graph.name;
  out.dims = graph.dims;
  Builder builder(out);
  std::vector<ValueId> map(graph.nodes.size(), kNoValue);
  for (ValueId v = 0; v < graph.nodes.size(); ++v) {
    if (!live[v]) continue;
    Node node = graph.nodes[v];
    node.group = -1;
    for (ValueId& i : node.inputs) i = map[i];
    std::string name = node.name;
    map[v] = visit(builder, std::move(node), v);
    TENON_CHECK(map[v] < out.nodes.size(), "a pass returned a value that does not exist");
    if (!name.empty() && out.node(map[v]).name.empty()) out.node(map[v]).name = name;
  }
  for (InputBinding i : graph.inputs) {
    i.value = map[i.value];
    out.inputs.push_back(i);
  }
  for (OutputBinding o : graph.outputs) {
    o.value = map[o.value];
    out.outputs.push_back(o);
  }
  return out;
}

}  // namespace tenon
