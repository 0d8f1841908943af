// See updates.h.
#include "src/runtime/compile/updates.h"

#include <algorithm>
#include <map>
#include <queue>

#include "src/ir/builder.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace {

// Which groups must run before which: by the values they read, and by the updates that are in order so far.
class GroupOrder {
 public:
  explicit GroupOrder(const Graph& graph) : after_(graph.groups.size()) {
    const auto members = members_of_groups(graph);
    for (size_t g = 0; g < members.size(); ++g) {
      for (ValueId v : inputs_of(graph, members[g])) {
        readers_[v].push_back(g);
        if (const int from = graph.node(v).group; from >= 0) after_[from].insert(g);
      }
    }
  }

  // Puts `writer` behind all other groups that read the value. False, and no change, if one of these groups
  // must run behind `writer`.
  bool put_behind_readers(size_t writer, ValueId v) {
    const std::vector<size_t>& readers = readers_[v];
    if (std::ranges::all_of(readers, [&](size_t g) { return g == writer; })) return true;
    const std::set<size_t> behind = behind_of(writer);
    if (std::ranges::any_of(readers, [&](size_t g) { return g != writer && behind.contains(g); }))
      return false;
    for (size_t g : readers)
      if (g != writer) after_[g].insert(writer);
    return true;
  }

  // The groups in a legal order, as close to their numbers as possible.
  std::vector<size_t> sorted() const {
    std::vector<int> waits(after_.size(), 0);
    for (const auto& list : after_)
      for (size_t g : list) ++waits[g];
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t g = 0; g < waits.size(); ++g)
      if (waits[g] == 0) ready.push(g);
    std::vector<size_t> order;
    while (!ready.empty()) {
      const size_t g = ready.top();
      ready.pop();
      order.push_back(g);
      for (size_t next : after_[g])
        if (--waits[next] == 0) ready.push(next);
    }
    TENON_CHECK(order.size() == after_.size(), "groups depend on each other in a circle");
    return order;
  }

 private:
  std::set<size_t> behind_of(size_t group) const {
    std::set<size_t> behind;
    std::vector<size_t> work{group};
    while (!work.empty()) {
      const size_t g = work.back();
      work.pop_back();
      for (size_t next : after_[g])
        if (behind.insert(next).second) work.push_back(next);
    }
    return behind;
  }

  std::vector<std::set<size_t>> after_;
  std::map<ValueId, std::vector<size_t>> readers_;  // each group once
};

ValueId updated_by(const Graph& graph, size_t output) {
  return graph.inputs[*graph.outputs[output].updates].value;
}

}  // namespace

OutputSet order_updates(Graph& graph) {
  OutputSet without_order;
  const size_t plain = graph.plain_outputs();
  if (plain == graph.outputs.size()) return without_order;
  GroupOrder order(graph);
  for (size_t o = plain; o < graph.outputs.size(); ++o) {
    const int writer = graph.node(graph.outputs[o].value).group;
    TENON_CHECK(writer >= 0, "no group computes an output");
    if (!order.put_behind_readers(static_cast<size_t>(writer), updated_by(graph, o))) without_order.insert(o);
  }
  const std::vector<size_t> sorted = order.sorted();
  std::vector<int> number(sorted.size());
  std::vector<Group> groups;
  for (size_t g = 0; g < sorted.size(); ++g) {
    number[sorted[g]] = static_cast<int>(g);
    groups.push_back(std::move(graph.groups[sorted[g]]));
  }
  graph.groups = std::move(groups);
  for (Node& n : graph.nodes)
    if (n.group >= 0) n.group = number[n.group];
  return without_order;
}

OutputSet not_in_place(const PlanSource& source) {
  const Graph& graph = *source.graph;
  OutputSet copied;
  size_t safe = source.executables.size();  // from this one on, no step can fail
  while (safe > 0 && !source.executables[safe - 1]->may_fail()) --safe;
  for (size_t o = graph.plain_outputs(); o < graph.outputs.size(); ++o) {
    const ValueId value = graph.outputs[o].value, updated = updated_by(graph, o);
    if (source.output_of[value] < 0) continue;  // copied already
    const auto writer = static_cast<size_t>(graph.node(value).group);
    const Executable& e = *source.executables[writer];
    const auto read = std::ranges::find(e.inputs, updated);
    const std::pair<int, int> pair(static_cast<int>(std::ranges::find(e.outputs, value) - e.outputs.begin()),
                                   static_cast<int>(read - e.inputs.begin()));
    if (writer < safe || (read != e.inputs.end() && !std::ranges::count(e.inplace, pair))) copied.insert(o);
  }
  return copied;
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
