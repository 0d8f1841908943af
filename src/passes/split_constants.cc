// See passes.h. A value is constant if it is a constant or a literal without symbols, or if all its operands
// are constant. Views of constants and literals stay in main, where they cost nothing. Tested by
// tests/golden/golden_test.cc.
#include <algorithm>
#include <functional>

#include "src/ir/group.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

bool has_symbols(const Dims& dims) {
  for (Dim d : dims)
    if (!d.is_const()) return true;
  return false;
}

}  // namespace

Split split_constants(const Graph& graph) {
  const size_t n = graph.nodes.size();
  std::vector<bool> fixed(n, false);
  for (ValueId v = 0; v < n; ++v) {
    const Node& node = graph.node(v);
    const Op& row = op(node.op);
    if (row.effect || row.name == "input" || has_symbols(node.type.shape)) continue;
    bool all = true;
    for (ValueId i : node.inputs) all = all && fixed[i];
    for (const AttrValue& a : node.attrs) {
      if (auto d = std::get_if<Dim>(&a)) all = all && d->is_const();
      if (auto d = std::get_if<Dims>(&a)) all = all && !has_symbols(*d);
    }
    fixed[v] = all;
  }
  // The constant values that main reads, directly or through views.
  std::vector<bool> needed(n, false);
  auto need = [&](ValueId v) {
    while (fixed[v] && op(graph.node(v).op).view) v = graph.node(v).inputs[0];
    if (fixed[v] && op(graph.node(v).op).kind != Kind::input) needed[v] = true;
  };
  for (ValueId v = 0; v < n; ++v)
    if (!fixed[v])
      for (ValueId i : graph.node(v).inputs) need(i);
  for (const OutputBinding& o : graph.outputs) need(o.value);

  Split split;
  if (std::ranges::none_of(needed, std::identity())) {
    split.main = graph;
    return split;
  }
  Graph init_source = graph;
  init_source.inputs.clear();
  init_source.outputs.clear();
  init_source.groups.clear();
  std::vector<ValueId> order;
  for (ValueId v = 0; v < n; ++v)
    if (needed[v]) order.push_back(v), init_source.outputs.push_back({v, std::nullopt});
  split.init = rewrite(init_source, [](Builder& b, Node&& node, ValueId) { return b.add(std::move(node)); });
  split.init.name = graph.name + "_init";
  std::vector<ValueId> stands(n, kNoValue);
  split.main = rewrite(graph, [&](Builder& b, Node&& node, ValueId old) {
    if (!needed[old]) return b.add(std::move(node));
    auto data = std::make_shared<ConstantData>();  // the size is known; the bytes follow once init has run
    data->size = static_cast<size_t>(size_of(node.type.dtype));
    for (Dim d : node.type.shape) data->size *= static_cast<size_t>(d.value());
    Node constant;
    constant.op = *find_op("constant");
    constant.origin = node.origin;
    std::vector<NamedAttr> attrs{{"dtype", node.type.dtype}, {"shape", node.type.shape}, {"data", data}};
    TENON_CHECK(fill_attrs(op(constant.op), std::move(attrs), constant.attrs).ok(), "constant attributes");
    constant.type = node.type;
    stands[old] = b.add(std::move(constant));
    return stands[old];
  });
  // Drops the operands of folded nodes, which are dead now.
  std::vector<bool> is_folded(split.main.nodes.size(), false);
  for (ValueId v : order) is_folded[stands[v]] = true;
  std::vector<ValueId> renumbered(split.main.nodes.size(), kNoValue);
  split.main = rewrite(split.main, [&](Builder& b, Node&& node, ValueId old) {
    renumbered[old] = b.add(std::move(node));
    return renumbered[old];
  });
  for (ValueId v : order) split.folded.push_back(renumbered[stands[v]]);
  return split;
}

}  // namespace tenon
