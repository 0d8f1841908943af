// See updates.h.
#include "src/runtime/compile/updates.h"

#include <algorithm>
#include <map>

#include "src/ir/builder.h"
#include "src/runtime/compile/group_order.h"

namespace tenon {
namespace {

ValueId updated_by(const Graph& graph, size_t output) {
  return graph.inputs[*graph.outputs[output].updates].value;
}

}  // namespace

OutputSet order_groups(Graph& graph, const OutputSet& copied) {
  OutputSet without_order;
  if (graph.groups.size() < 2) return without_order;
  std::vector<ValueId> kept;  // in intermediates until all groups have run
  GroupOrder order(graph);
  std::vector<size_t> writers;
  for (size_t o = graph.plain_outputs(); o < graph.outputs.size(); ++o) {
    const int writer = graph.node(graph.outputs[o].value).group;
    TENON_CHECK(writer >= 0, "no group computes an output");
    if (copied.contains(o) || !order.put_behind_readers(static_cast<size_t>(writer), updated_by(graph, o))) {
      kept.push_back(graph.outputs[o].value);
      if (!copied.contains(o)) without_order.insert(o);
    } else {
      writers.push_back(static_cast<size_t>(writer));
    }
  }
  order.put_behind_faults(graph, writers);
  if (graph.has_donated_inputs()) order.put_checks_first(graph);
  order.apply(graph, kept);
  return without_order;
}

namespace {

bool cannot_fail(Executable& e) {
  if (e.may_fail()) e.take_ahead();
  return !e.may_fail();
}

}  // namespace

OutputSet not_in_place(const PlanSource& source, const OutputSet& copied) {
  const Graph& graph = *source.graph;
  OutputSet found;
  std::map<size_t, size_t> writers;  // by output
  size_t safe = source.executables.size(), first = safe;
  for (size_t o = graph.plain_outputs(); o < graph.outputs.size(); ++o) {
    const int writer = graph.node(graph.outputs[o].value).group;
    if (!copied.contains(o)) first = std::min(first, writers[o] = static_cast<size_t>(writer));
  }
  // From `safe` on, no step can fail.
  while (safe > first && cannot_fail(*source.executables[safe - 1])) --safe;
  for (auto [o, writer] : writers) {
    const ValueId value = graph.outputs[o].value, updated = updated_by(graph, o);
    const Executable& e = *source.executables[writer];
    const auto read = std::ranges::find(e.inputs, updated);
    const std::pair<int, int> pair(static_cast<int>(std::ranges::find(e.outputs, value) - e.outputs.begin()),
                                   static_cast<int>(read - e.inputs.begin()));
    if (writer < safe || (read != e.inputs.end() && !std::ranges::count(e.inplace, pair))) found.insert(o);
  }
  return found;
}

Graph copies_of(const Graph& graph, const OutputSet& outputs) {
  Graph copies;
  copies.name = graph.name + "_copies";
  copies.dims = graph.dims;
  Builder b(copies);
  for (size_t o : outputs) {
    const auto input = b.try_input({}, graph.type(graph.outputs[o].value));
    TENON_CHECK(input.ok(), input.status().message());
    copies.outputs.push_back({*input, graph.outputs[o].strides});
  }
  return copies;
}

}  // namespace tenon
