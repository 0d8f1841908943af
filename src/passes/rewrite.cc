// See passes.h. Tested by tests/golden/passes/*.tn.
#include "src/passes/passes.h"

namespace tenon {

Graph rewrite(const Graph& graph, const Visit& visit, const Start& start) {
  std::vector<bool> live(graph.nodes.size(), false);
  for (const OutputBinding& o : graph.outputs) live[o.value] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (live[i])
      for (ValueId v : graph.nodes[i].inputs) live[v] = true;

  Graph out;
  out.name = graph.name;
  out.dims = graph.dims;
  out.nodes.reserve(graph.nodes.size());
  Builder builder(out);
  std::vector<ValueId> map(graph.nodes.size(), kNoValue);
  for (const InputBinding& i : graph.inputs) {
    auto v = builder.try_input(graph.node(i.value).name, graph.type(i.value));
    TENON_CHECK(v.ok(), v.status().message());
    map[i.value] = *v;
    out.node(*v).origin = graph.node(i.value).origin;
    out.inputs.back() = i;
    out.inputs.back().value = *v;
  }
  if (start) start(builder, map);
  for (ValueId v = 0; v < graph.nodes.size(); ++v) {
    if (!live[v] || map[v] != kNoValue) continue;
    const Node& old = graph.nodes[v];
    Node node = old;
    node.group = -1;
    for (ValueId& i : node.inputs) i = map[i];
    builder.follow(&graph, &old);
    map[v] = visit(builder, std::move(node), v);
    TENON_CHECK(map[v] < out.nodes.size(), "a pass returned a value that does not exist");
    Node& made = out.node(map[v]);
    if (made.origin.empty()) made.origin = old.origin;
    if (made.name.empty()) made.name = old.name;
  }
  for (OutputBinding o : graph.outputs) {
    o.value = map[o.value];
    out.outputs.push_back(o);
  }
  return out;
}

}  // namespace tenon
