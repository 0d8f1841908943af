// See passes.h. Tested by tests/golden/passes/early_checks.tn and tests/unit/runtime/update_test.cc.
#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "src/ops/rows/names.h"
#include "src/ops/rules/indices.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

ValueId checked(Builder& b, ValueId index, Dim size, bool wrap) {
  index = b.cast(index, DType::i64);
  const ValueId n = b.size(size, DType::i64);
  if (wrap) {
    const ValueId negative = b(ops::lt, {index, b.scalar_int(0, DType::i64)});
    index = b(ops::where, {negative, b(ops::add, {index, n}), index});
  }
  return b(ops::index_in, {index, n});
}

}  // namespace

std::vector<bool> waits_for_checks(const Graph& graph) {
  std::vector<bool> waits(graph.nodes.size(), false);
  for (const OutputBinding& o : graph.outputs)
    waits[o.value] = waits[o.value] || (o.updates && graph.node(o.value).op != ops::input);
  if (graph.has_donated_inputs())
    for (const InputBinding& in : graph.inputs) waits[in.value] = is_float(graph.type(in.value).dtype);
  for (ValueId v = 0; v < graph.nodes.size(); ++v)
    for (ValueId i : graph.node(v).inputs) waits[v] = waits[v] || waits[i];
  return waits;
}

Graph early_checks(const Graph& graph) {
  const std::vector<bool> waits = waits_for_checks(graph);
  if (std::ranges::none_of(waits, std::identity())) return graph;
  std::map<std::tuple<ValueId, Dim, bool>, ValueId> checks;  // by index, size and wrap
  return rewrite(graph, [&](Builder& b, Node&& node, ValueId old) {
    const Node& former = graph.node(old);
    const auto size = waits[old] ? indexed_size(graph, former) : std::nullopt;
    if (size && !waits[former.inputs[1]] && !is_index_into(graph, former.inputs[1], *size)) {
      const bool wrap = attr_as<bool>(node, "wrap");
      auto [check, added] = checks.try_emplace({node.inputs[1], *size, wrap}, kNoValue);
      if (added) check->second = checked(b, node.inputs[1], *size, wrap);
      node.inputs[1] = check->second;
    }
    return b.add(std::move(node));
  });
}

}  // namespace tenon
