// See passes.h. A value that another group reads stays as it is if one of these groups cannot compute it: then it is stored anyway. The
// back end is asked whether it runs the changed groups; what it refuses stays stored. Tested by tests/golden/passes/fuse_duplicate_maps.tn.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

constexpr size_t kMostMaps = 4;          // maps that a group computes again for one value
constexpr int64_t kFewElements = 4'096;  // a tensor that is stored and read in no time

Graph without_dead_nodes(const Graph& graph) {
  Graph live = rewrite(graph, [&](Builder& b, Node&& node, ValueId old) {
    node.group = graph.node(old).group;
    return b.add(std::move(node));
  });
  live.groups = graph.groups;
  return live;
}
Graph without_empty_groups(Graph graph) {
  std::vector<int> number(graph.groups.size(), -1);
  std::vector<Group> groups;
  for (size_t i = 0; const std::vector<ValueId>& members : members_of_groups(graph)) {
    if (!members.empty()) {
      number[i] = static_cast<int>(groups.size());
      groups.push_back(std::move(graph.groups[i]));
    }
    ++i;
  }
  for (Node& node : graph.nodes)
    if (node.group >= 0) node.group = number[node.group];
  graph.groups = std::move(groups);
  return graph;
}

class Duplicator {
 public:
  Duplicator(const Graph& graph, const Placement& placement)
      : g_(graph),
        placement_(placement),
        loops_(placement.loops()),
        uses_(graph),
        members_(members_of_groups(graph)) {}

  Graph run() {
    for (std::set<ValueId> refused;;) {
      find(refused);
      if (duplicated_.empty()) return g_;
      Graph made = without_dead_nodes(rebuild());
      const size_t before = refused.size();
      refuse_uncovered(made, refused);
      if (refused.size() == before) return without_empty_groups(std::move(made));
    }
  }

 private:
  bool in_loops(ValueId v) const {
    const int group = g_.node(v).group;
    return group >= 0 && g_.groups[group].backend == loops_;
  }
  // Whether the value has as many elements as `like`.
  bool is_as_large(ValueId v, ValueId like) const {
    return g_.dims->product(g_.type(v).shape) == g_.dims->product(g_.type(like).shape);
  }

  // What it takes to compute a value.
  struct Cone {
    std::set<ValueId> maps,
        operands;  // maps, and stored values of which they read as many elements as the value has
  };
  // Adds what it takes to compute v, which `whole` depends on. Returns false if it takes more than a few cheap maps. `large`: v is read
  // through a view with as many elements as `whole`.
  bool add_cone(ValueId v, ValueId whole, Cone& cone, bool large = false) const {
    const Node& node = g_.node(v);
    large = large || is_as_large(v, whole);
    if (is_inlined(g_, v)) {
      large = large && node.op != ops::expand;
      return std::ranges::all_of(node.inputs, [&](ValueId u) { return add_cone(u, whole, cone, large); });
    }
    if (v != whole && !duplicated_.contains(v) && (!large || is_stored(v))) {
      if (large) cone.operands.insert(v);
      return true;
    }
    const Op& row = op(node.op);
    if (row.kind != Kind::map || row.expensive || row.effect || row.view) return false;
    if (large) cone.maps.insert(v);
    return cone.maps.size() <= kMostMaps &&
           std::ranges::all_of(node.inputs, [&](ValueId u) { return add_cone(u, whole, cone); });
  }
  // Whether the value is in memory after its group has run.
  bool is_stored(ValueId v) const {
    const int group = g_.node(v).group;
    return group < 0 || stored_.contains(v);
  }

  // The groups of loops that read v element by element outside its own group; empty if something else reads it there.
  std::set<int> readers_of(ValueId v) const {
    std::set<int> groups;
    std::vector<ValueId> work{v};
    while (!work.empty()) {
      const ValueId at = work.back();
      work.pop_back();
      for (const ValueId user : uses_.users(at)) {
        const Kind kind = op(g_.node(user).op).kind;
        if (g_.node(user).group == g_.node(v).group) continue;
        if (kind != Kind::reduce && !is_as_large(user, v)) return {};  // reads an element more than once
        if (is_inlined(g_, user))
          work.push_back(user);
        else if (in_loops(user) && (kind == Kind::map || kind == Kind::reduce))
          groups.insert(g_.node(user).group);
        else
          return {};
      }
    }
    return groups;
  }

  // Whether the group may compute the value: it reads no more bytes then.
  bool gains(int group, ValueId v, const Cone& cone) const {
    if (std::ranges::any_of(members_[group], [&](ValueId m) { return g_.node(m).op == ops::index_in; }))
      return false;
    const std::vector<ValueId> read = inputs_of(g_, members_[group]);
    int64_t bytes = 0;
    for (const ValueId u : cone.operands)
      if (!std::ranges::binary_search(read, u)) bytes += size_of(g_.type(u).dtype);
    return bytes <= size_of(g_.type(v).dtype);
  }

  void find(const std::set<ValueId>& refused) {
    duplicated_.clear();
    copied_.clear();
    stored_.clear();
    for (const std::vector<ValueId>& members : members_)
      for (const ValueId v : outputs_of(g_, uses_, members)) stored_.insert(v);
    for (ValueId v = 0; v < g_.nodes.size(); ++v) {
      if (!stored_.contains(v) || !in_loops(v) || uses_.is_output(v) || refused.contains(v)) continue;
      const Dim elements = g_.dims->product(g_.type(v).shape);
      if (elements.is_const() && elements.value() <= kFewElements) continue;
      const std::set<int> readers = readers_of(v);
      Cone cone;
      if (readers.empty() || !add_cone(v, v, cone)) continue;
      if (!std::ranges::all_of(readers, [&](int group) { return gains(group, v, cone); })) continue;
      duplicated_.insert(v);
      stored_.erase(v);
      copied_.merge(cone.maps);
    }
  }

  // Gives each group a copy of the duplicated values that it reads.
  Graph rebuild() {
    now_.assign(g_.nodes.size(), kNoValue);
    copies_.clear();
    for (const InputBinding& in : g_.inputs) now_[in.value] = static_cast<ValueId>(&in - g_.inputs.data());
    Graph made = rewrite(g_, [&](Builder& b, Node&& node, ValueId old) {
      const Node& from = g_.node(old);
      for (size_t i = 0; i < from.inputs.size() && from.group >= 0; ++i)
        node.inputs[i] = read(b, from.inputs[i], from.group);
      node.group = from.group;
      return now_[old] = b.add(std::move(node));
    });
    made.groups = g_.groups;
    return made;
  }
  // The value that the group reads in place of v.
  ValueId read(Builder& b, ValueId v, int group) {
    const bool copied = copied_.contains(v) && g_.node(v).group != group;
    if (!copied && !is_inlined(g_, v)) return now_[v];
    if (auto it = copies_.find({v, group}); it != copies_.end()) return it->second;
    Node copy = g_.node(v);
    for (ValueId& operand : copy.inputs) operand = read(b, operand, group);
    ValueId made = now_[v];
    if (copied || copy.inputs != b.graph().node(made).inputs) {
      copy.name.clear();
      copy.group = copied ? group : -1;
      made = b.add(std::move(copy));
    }
    return copies_[{v, group}] = made;
  }

  // Adds to `refused` the values for whose sake the back end does not run a group any more.
  void refuse_uncovered(const Graph& made, std::set<ValueId>& refused) const {
    const Uses uses(made);
    const std::vector<std::vector<ValueId>> members = members_of_groups(made);
    std::map<int, std::vector<ValueId>> changed;  // group -> duplicated values
    for (const ValueId v : duplicated_) {
      changed[g_.node(v).group].push_back(v);
      for (const int group : readers_of(v)) changed[group].push_back(v);
    }
    for (const auto& [group, values] : changed) {
      const std::vector<ValueId>& all = members[group];
      std::string why;
      if (all.empty() ||
          placement_.joins(made, uses, loops_, std::span(all).first(all.size() - 1), all.back(), &why))
        continue;
      refused.insert(values.begin(), values.end());
    }
  }

  const Graph& g_;
  const Placement& placement_;
  const std::string loops_;
  const Uses uses_;
  const std::vector<std::vector<ValueId>> members_;
  std::set<ValueId> stored_;      // values of groups that are in memory
  std::set<ValueId> duplicated_;  // values of groups that other groups compute again instead of reading them
  std::set<ValueId> copied_;      // these, and the maps on the way to them
  std::vector<ValueId> now_;      // old value -> new value
  std::map<std::pair<ValueId, int>, ValueId> copies_;  // old value, the group that reads it -> new value
};

}  // namespace

Graph duplicate_maps(const Graph& graph, const Placement& placement) {
  return Duplicator(graph, placement).run();
}

}  // namespace tenon
