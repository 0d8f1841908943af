// See passes.h. Visits the nodes in order. A library node starts a group and takes its epilogue: first the
// only reader of its value, if that is a map (or a composite that was kept for the library), then the only
// reader of that node, as long as the library says yes. A node that loops run joins the groups of its
// producers: all of them if one schedule covers the union, else one of them, tried in descending order of the
// rank of the values read, else none. A reduction that reads only stored values may join a group that reads
// the same tensor. The back end decides whether a schedule covers a set of nodes, so there is one definition
// of legality. A merge must not create a cycle of groups. If no schedule covers a node alone, the views that
// it reads are stored and fusion begins again. Tested by tests/golden/passes/fuse_*.tn.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_set>

#include "src/ir/group.h"
#include "src/ir/outline.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/view.h"
#include "src/passes/elementwise.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

class Fuser {
 public:
  Fuser(Graph& graph, const Placement& placement, bool apart)
      : g_(graph),
        placement_(placement),
        apart_(apart),
        loops_(placement.loops()),
        uses_(graph),
        outlines_(graph, uses_),
        waits_(placement.finds_faults() ? waits_for_checks(graph) : std::vector<bool>(graph.nodes.size())),
        backend_(graph.nodes.size()) {}

  void run() {
    store_long_views();
    while (!form_groups()) {
    }
    if (number_groups()) return;
    follows_all_ = true;
    while (!form_groups()) {
    }
    TENON_CHECK(number_groups(), "groups wait for each other");
  }

 private:
  // Returns false if more values have to be stored first.
  bool form_groups() {
    groups_.clear();
    group_of_.assign(g_.nodes.size(), -1);
    place_library_groups();
    for (ValueId v = 0; v < g_.nodes.size(); ++v)
      if (group_of_[v] < 0 && wants_group(v) && !join_producers(v)) return false;
    return true;
  }

  struct Draft {
    std::string backend;
    std::vector<ValueId> members;  // ascending
    std::string why;
  };

  const std::string& backend(ValueId v) {
    if (backend_[v].empty()) backend_[v] = placement_.runs(g_, v);
    return backend_[v];
  }
  // Whether a check of indices would be in one group with a value that waits for checks.
  bool delays_check(std::span<const ValueId> members, ValueId v) const {
    auto is_check = [&](ValueId u) { return g_.node(u).op == ops::index_in && !waits_[u]; };
    auto waits = [&](ValueId u) { return waits_[u]; };
    return (waits(v) && std::ranges::any_of(members, is_check)) ||
           (is_check(v) && std::ranges::any_of(members, waits));
  }
  // Why the node may not join these members, whatever back end runs them; null if it may.
  const char* keeps_apart(std::span<const ValueId> members, ValueId v) const {
    if (apart_) return "the pass fuse is left out";
    return delays_check(members, v) ? "a check of indices would run late" : nullptr;
  }
  bool joins(const std::string& backend, std::span<const ValueId> members, ValueId v, std::string* why) {
    if (const char* apart = members.empty() ? nullptr : keeps_apart(members, v)) {
      *why = apart;
      return false;
    }
    return backend == loops_ ? loops_join(members, v, why)
                             : placement_.joins(g_, uses_, backend, members, v, why);
  }
  // Loops cover a set of nodes if they cover another one with the same outline.
  bool loops_join(std::span<const ValueId> members, ValueId v, std::string* why) {
    std::vector<ValueId> all(members.begin(), members.end());
    all.insert(std::ranges::lower_bound(all, v), v);
    std::string outline = outlines_.of(all);
    if (covered_.contains(outline)) {
#ifndef NDEBUG
      TENON_CHECK(placement_.joins(g_, uses_, loops_, members, v, why), "equal outlines: " + *why);
#endif
      return true;
    }
    if (!placement_.joins(g_, uses_, loops_, members, v, why)) return false;
    covered_.insert(std::move(outline));
    return true;
  }

  bool stored(ValueId v) const {
    const Op& row = op(g_.node(v).op);
    return group_of_[v] >= 0 || must_store_.count(v) || (row.kind != Kind::input && !row.view) ||
           row.name == "input" || row.name == "constant";
  }
  bool wants_group(ValueId v) const {
    const Op& row = op(g_.node(v).op);
    return must_store_.count(v) || (row.kind != Kind::input && !row.view);
  }

  // The values that `v` reads from memory, also through views that are not stored.
  void reads(ValueId v, std::set<ValueId>& out) const {
    for (ValueId i : g_.node(v).inputs) {
      if (stored(i))
        out.insert(i);
      else
        reads(i, out);
    }
  }

  std::optional<Dims> strides(ValueId v) const {
    if (!stored(v)) return std::nullopt;
    return stored_strides(g_, v);
  }

  // Lowering reads through views by recursion, so in a longer chain of views some are stored.
  void store_long_views() {
    constexpr int kMostInRow = 64;
    std::vector<int> row(g_.nodes.size(), 0);
    for (ValueId v = 0; v < g_.nodes.size(); ++v) {
      if (!op(g_.node(v).op).view) continue;
      row[v] = row[g_.node(v).inputs[0]] + 1;
      if (row[v] < kMostInRow) continue;
      must_store(v);
      row[v] = 0;
    }
  }

  void place_library_groups() {
    for (const OutputBinding& o : g_.outputs)
      if (op(g_.node(o.value).op).view || is_literal(g_, o.value)) must_store(o.value);
    for (ValueId v = 0; v < g_.nodes.size(); ++v) {
      const Op& row = op(g_.node(v).op);
      if (row.kind == Kind::input || row.view) continue;
      const bool scatters = g_.node(v).op == ops::scatter || g_.node(v).op == ops::index_put;
      const std::string backend = this->backend(v);
      if (!scatters && backend == loops_) continue;
      const std::vector<ValueId>& inputs = g_.node(v).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        // The loops that copy the base of a scatter write a literal themselves.
        const bool filled = scatters && i == 0 && backend == loops_ && is_literal(g_, inputs[i]);
        if (!filled) store_if_unreadable(inputs[i], v, backend);
      }
    }
    for (ValueId v = 0; v < g_.nodes.size(); ++v) {
      const Op& row = op(g_.node(v).op);
      if (row.kind == Kind::input || row.view || group_of_[v] >= 0) continue;
      const std::string backend = this->backend(v);
      if (backend == loops_) continue;
      const int id = new_group(backend, v);
      for (ValueId tail = v;;) {
        if (uses_.is_output(tail) || uses_.users(tail).size() != 1) break;
        const ValueId next = uses_.users(tail)[0];
        const Op& next_row = op(g_.node(next).op);
        if ((next_row.kind != Kind::map && next_row.kind != Kind::composite) || group_of_[next] >= 0) break;
        if (std::count(g_.node(next).inputs.begin(), g_.node(next).inputs.end(), tail) != 1) break;
        if (makes_cycle({id}, next)) break;
        std::string why;
        if (!joins(backend, groups_[id].members, next, &why)) {
          groups_[id].why = why;
          break;
        }
        for (ValueId i : g_.node(next).inputs)
          if (!is_number(i)) store_if_unreadable(i, next, backend);
        add(id, next);
        tail = next;
      }
    }
  }

  // Whether the value is one number everywhere. A library that took the epilogue has such a number as a
  // parameter.
  bool is_number(ValueId v) const {
    while (op(g_.node(v).op).view && !stored(v)) v = g_.node(v).inputs[0];
    return g_.node(v).op == ops::full && !stored(v);
  }
  // Libraries read strided memory. Literals, views that strides cannot express, and views that the library
  // does not take must be stored.
  void store_if_unreadable(ValueId v, ValueId node, const std::string& backend) {
    if (stored(v)) return;
    if (is_literal(g_, v) || !view_of(g_, v, [&](ValueId u) { return strides(u); }) ||
        !placement_.reads(g_, backend, node, v))
      must_store(v);
  }
  // Back ends treat this view or literal like any stored value: it belongs to a group, whose number is not
  // known yet.
  void must_store(ValueId v) {
    must_store_.insert(v);
    g_.nodes[v].group = 0;
  }
  // Stores the views and literals that `v` reads. Returns false if it reads none.
  bool store_operands(ValueId v) {
    const size_t before = must_store_.size();
    for (ValueId i : g_.node(v).inputs)
      if (!stored(i)) must_store(i);
    return must_store_.size() > before;
  }

  int new_group(std::string backend, ValueId v) {
    groups_.push_back({std::move(backend), {v}, {}});
    group_of_[v] = static_cast<int>(groups_.size() - 1);
    return group_of_[v];
  }
  void add(int id, ValueId v) {
    auto& m = groups_[id].members;
    m.insert(std::lower_bound(m.begin(), m.end(), v), v);
    group_of_[v] = id;
  }

  // Whether a group of `merged` and `v` would read a value that depends on the group itself. Values before the
  // group's first member are followed only if their own group has a member behind it, which misses groups
  // that they reach through others; following all would take quadratic time, so `run` does it on demand.
  bool makes_cycle(const std::set<int>& merged, ValueId v) const {
    ValueId lowest = v;
    for (int id : merged) lowest = std::min(lowest, groups_[id].members.front());
    auto in_set = [&](ValueId u) { return u == v || (group_of_[u] >= 0 && merged.count(group_of_[u])); };
    std::set<ValueId> seen;
    std::vector<ValueId> work;
    for (int id : merged)
      for (ValueId m : groups_[id].members) collect_outside(m, in_set, seen, work);
    collect_outside(v, in_set, seen, work);
    // Follow all dependences of the outside values. A value of another group depends on everything its group
    // reads.
    std::set<int> dragged;
    while (!work.empty()) {
      ValueId u = work.back();
      work.pop_back();
      std::vector<ValueId> nodes{u};
      if (group_of_[u] >= 0) {
        if (!dragged.insert(group_of_[u]).second) continue;
        nodes = groups_[group_of_[u]].members;
      }
      for (ValueId m : nodes) {
        std::set<ValueId> read;
        reads(m, read);
        for (ValueId i : read) {
          if (in_set(i)) return true;
          if ((follows_all_ || i >= lowest) && seen.insert(i).second)
            work.push_back(i);
          else if (group_of_[i] >= 0 && groups_[group_of_[i]].members.back() >= lowest &&
                   seen.insert(i).second)
            work.push_back(i);
        }
      }
    }
    return false;
  }
  template <class InSet>
  void collect_outside(ValueId m, const InSet& in_set, std::set<ValueId>& seen,
                       std::vector<ValueId>& work) const {
    std::set<ValueId> read;
    reads(m, read);
    for (ValueId i : read)
      if (!in_set(i) && seen.insert(i).second) work.push_back(i);
  }

  // The groups of loops that read this stored value, newest first.
  std::vector<int> readers_of(ValueId v) const {
    std::vector<int> found;
    if (!stored(v)) return found;
    for (int id = static_cast<int>(groups_.size()); id-- > 0;) {
      if (groups_[id].backend != loops_) continue;
      const auto& members = groups_[id].members;
      if (std::any_of(members.begin(), members.end(), [&](ValueId m) {
            std::set<ValueId> read;
            reads(m, read);
            return read.count(v) > 0;
          }))
        found.push_back(id);
    }
    return found;
  }

  // Whether a member folds the rows of square matrices and v their columns, or the other way round. One loop over both results reads the
  // matrices in two orders, which pays only if there is nothing else in the group.
  bool folds_crosswise(std::span<const ValueId> members, ValueId v) const {
    const Node& node = g_.node(v);
    const Dims& shape = g_.type(node.inputs[0]).shape;
    const auto axes = [&](const Node& n) {
      std::vector<bool> folded(shape.size(), attr_ints(n, "axes").empty());
      for (const int64_t a : attr_ints(n, "axes"))
        folded[wrap_axis(a, static_cast<int64_t>(shape.size()))] = true;
      return folded;
    };
    const auto reduces = [&](ValueId m) { return op(g_.node(m).op).kind == Kind::reduce; };
    return !std::ranges::all_of(members, reduces) && std::ranges::any_of(members, [&](ValueId m) {
      const Node& other = g_.node(m);
      return op(other.op).kind == Kind::reduce && g_.type(other.inputs[0]).shape == shape &&
             g_.dims->product(other.type.shape) == g_.dims->product(node.type.shape) &&
             axes(other) != axes(node);
    });
  }

  // Returns false if no schedule covers `v` together with the views that it reads; these views are stored
  // now.
  bool join_producers(ValueId v) {
    const std::string backend = op(g_.node(v).op).view ? loops_ : this->backend(v);
    std::set<ValueId> read;
    reads(v, read);
    std::map<int, int> producers;  // group -> largest 2 * rank, + 1 if of v's shape, of a value read
    for (ValueId i : read) {
      const int id = group_of_[i];
      if (id < 0 || groups_[id].backend != loops_ || backend != loops_) continue;
      producers[id] = std::max(producers[id], g_.type(i).rank() * 2 + (g_.type(i).shape == g_.type(v).shape));
    }
    std::vector<std::set<int>> tries;
    if (producers.size() > 1) {
      std::set<int> all;
      for (auto& [id, rank] : producers) all.insert(id);
      tries.push_back(all);
    }
    std::vector<std::pair<int, int>> ranked;
    for (auto& [id, rank] : producers) ranked.push_back({-rank, id});
    std::sort(ranked.begin(), ranked.end());
    for (auto& [rank, id] : ranked) tries.push_back({id});
    if (tries.empty() && backend == loops_ && op(g_.node(v).op).kind == Kind::reduce)
      for (int id : readers_of(g_.node(v).inputs[0]))
        if (!folds_crosswise(groups_[id].members, v)) tries.push_back({id});

    std::string why;
    for (const std::set<int>& set : tries) {
      size_t size = 1;
      for (int id : set) size += groups_[id].members.size();
      if (size > most_members_) {
        why = "the group is full";
        continue;
      }
      if (makes_cycle(set, v)) {
        why = "another group between them would wait for both";
        continue;
      }
      std::vector<ValueId> members;
      for (int id : set)
        members.insert(members.end(), groups_[id].members.begin(), groups_[id].members.end());
      std::sort(members.begin(), members.end());
      // Stored views inside the set are read from memory only by other groups; inside they cost nothing
      // either way.
      if (!joins(loops_, members, v, &why)) continue;
      const int target = *set.begin();
      for (int id : set) {
        if (id == target) continue;
        for (ValueId m : groups_[id].members) group_of_[m] = target;
        groups_[id].members.clear();
      }
      groups_[target].members = members;
      add(target, v);
      return true;
    }
    std::string alone;
    const bool covered = backend != loops_ || joins(backend, {}, v, &alone);
    if (!covered && store_operands(v)) return false;
    const std::string otherwise(placement_.last_resort().empty() ? "none" : placement_.last_resort());
    const int id = new_group(covered ? backend : otherwise, v);
    if (!covered)
      groups_[id].why = "no schedule covers it: " + alone;
    else if (!why.empty())
      groups_[id].why = g_.value_name(v) + " starts a new group: " + why;
    return true;
  }

  // Numbers the groups in an order in which they can run. Returns false if there is none.
  bool number_groups() {
    std::vector<std::set<int>> waits(groups_.size());
    for (size_t id = 0; id < groups_.size(); ++id)
      for (ValueId m : groups_[id].members) {
        std::set<ValueId> read;
        reads(m, read);
        for (ValueId i : read)
          if (group_of_[i] >= 0 && group_of_[i] != static_cast<int>(id)) waits[id].insert(group_of_[i]);
      }
    // The ready group whose last member is earliest comes first: this keeps the host's order and short
    // lifetimes. A view counts as its operand, because copies of outputs stand at the end of the graph.
    std::vector<ValueId> place(g_.nodes.size());
    for (ValueId v = 0; v < g_.nodes.size(); ++v)
      place[v] = op(g_.node(v).op).view ? place[g_.node(v).inputs[0]] : v;
    const auto place_of = [&](size_t id) {
      ValueId last = 0;
      for (ValueId v : groups_[id].members) last = std::max(last, place[v]);
      return last;
    };
    std::vector<int> number(groups_.size(), -1), order;
    std::vector<std::vector<int>> readers(groups_.size());
    std::set<std::pair<ValueId, int>> ready;
    size_t pending = 0;
    for (size_t id = 0; id < groups_.size(); ++id) {
      if (groups_[id].members.empty()) continue;
      ++pending;
      for (int w : waits[id]) readers[static_cast<size_t>(w)].push_back(static_cast<int>(id));
      if (waits[id].empty()) ready.emplace(place_of(id), static_cast<int>(id));
    }
    while (!ready.empty()) {
      const int id = ready.extract(ready.begin()).value().second;
      number[id] = static_cast<int>(order.size());
      order.push_back(id);
      for (int r : readers[id]) {
        waits[r].erase(id);
        if (waits[r].empty()) ready.emplace(place_of(static_cast<size_t>(r)), r);
      }
    }
    if (order.size() != pending) return false;
    g_.groups.clear();
    for (int id : order) g_.groups.push_back({groups_[id].backend, groups_[id].why});
    for (ValueId v = 0; v < g_.nodes.size(); ++v)
      g_.nodes[v].group = group_of_[v] < 0 ? -1 : number[group_of_[v]];
    return true;
  }

  // Each node that joins a group has the whole group lowered. Larger graphs get smaller groups, so that
  // fusion takes seconds at most.
  static constexpr size_t kMostLowered = 3'000'000;

  Graph& g_;
  const Placement& placement_;
  const bool apart_;
  const std::string loops_;
  const Uses uses_;
  const Outlines outlines_;
  std::unordered_set<std::string> covered_;  // the outlines of sets that loops cover
  const std::vector<bool> waits_;     // per node: see waits_for_checks; false if no check finds a fault
  std::vector<std::string> backend_;  // per node; empty until asked for
  bool follows_all_ = false;
  const size_t most_members_ = std::max<size_t>(16, kMostLowered / (g_.nodes.size() + 1));
  std::vector<int> group_of_;
  std::vector<Draft> groups_;
  std::set<ValueId> must_store_;
};

}  // namespace

Graph fuse(const Graph& graph, const Placement& placement, bool apart) {
  Graph out = rewrite(graph, [](Builder& b, Node&& node, ValueId) { return b.add(std::move(node)); });
  Fuser(out, placement, apart).run();
  return out;
}

}  // namespace tenon
