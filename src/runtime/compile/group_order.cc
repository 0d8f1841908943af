// See group_order.h.
#include "src/runtime/compile/group_order.h"

#include <algorithm>
#include <limits>

#include "src/ir/group.h"
#include "src/ops/rules/indices.h"
#include "src/passes/passes.h"

namespace tenon {

// Which intermediates and donated inputs are alive while groups run one after the other.
class GroupOrder::Memory {
 public:
  Memory(const Graph& graph, std::span<const ValueId> kept)
      : bytes_(graph.nodes.size(), 0), waiting_(graph.nodes.size()) {
    const std::vector<int64_t> sizes = usual_sizes(*graph.dims);
    const Uses uses(graph);
    for (const auto& members : members_of_groups(graph)) {
      read_.push_back(inputs_of(graph, members));
      made_.push_back(outputs_of(graph, uses, members));
      for (ValueId v : made_.back())
        if (!uses.is_output(v) || std::ranges::count(kept, v)) bytes_[v] = bytes(graph, v, sizes);
      for (ValueId v : read_.back()) add_reader(v, read_.size() - 1);
    }
    for (const InputBinding& in : graph.inputs)
      if (in.donated) alive_ += bytes_[in.value] = bytes(graph, in.value, sizes);
    peak_ = alive_;
    for (ValueId v : kept) add_reader(v, read_.size());  // a reader that never runs
    growth_.assign(read_.size() + 1, 0);
    for (size_t g = 0; g < read_.size(); ++g) {
      for (ValueId v : made_[g]) growth_[g] += bytes_[v];
      for (ValueId v : read_[g])
        if (waiting_[v].count == 1) growth_[g] -= bytes_[v];
    }
  }

  // How many more bytes are alive after the group than before it; negative if it frees more than it makes.
  double growth(size_t group) const { return growth_[group]; }
  double peak() const { return peak_; }

  // Runs the group. Calls changed(group) for each group that has another growth now.
  template <class Changed>
  void run(size_t group, const Changed& changed) {
    for (ValueId v : made_[group]) alive_ += bytes_[v];
    peak_ = std::max(peak_, alive_);
    for (ValueId v : read_[group]) {
      Readers& left = waiting_[v];
      left.sum -= group;
      if (--left.count == 0) alive_ -= bytes_[v];
      if (left.count != 1 || bytes_[v] == 0) continue;
      growth_[left.sum] -= bytes_[v];
      changed(left.sum);
    }
  }

 private:
  // The groups that still wait to read a value: how many, and the sum of their numbers, which is the last one's
  // number in the end.
  struct Readers {
    size_t count = 0, sum = 0;
  };

  static std::vector<int64_t> usual_sizes(const DimTable& dims) {
    std::vector<int64_t> sizes;
    for (int i = 0; i < dims.symbol_count(); ++i) {
      const auto [low, high] = dims.range(dims.symbol_at(i));
      sizes.push_back(std::clamp<int64_t>(64, low, high));
    }
    return sizes;
  }
  static double bytes(const Graph& graph, ValueId v, std::span<const int64_t> sizes) {
    double all = size_of(graph.type(v).dtype);
    for (Dim d : graph.type(v).shape)
      all *= static_cast<double>(std::max<int64_t>(graph.dims->eval(d, sizes).value_or(0), 0));
    return all;
  }
  void add_reader(ValueId v, size_t group) {
    ++waiting_[v].count;
    waiting_[v].sum += group;
  }

  std::vector<double> bytes_;                      // per value; 0: no intermediate
  std::vector<Readers> waiting_;                   // per value
  std::vector<std::vector<ValueId>> read_, made_;  // per group
  std::vector<double> growth_;                     // per group
  double alive_ = 0, peak_ = 0;
};

namespace {

bool may_find_fault(const Graph& graph, ValueId v) {
  const Node& node = graph.node(v);
  if (const auto size = indexed_size(graph, node)) return !is_index_into(graph, node.inputs[1], *size);
  return !op(node.op).fault.what.empty() &&
         std::ranges::any_of(node.inputs, [&](ValueId i) { return is_integer(graph.type(i).dtype); });
}

}  // namespace

GroupOrder::GroupOrder(const Graph& graph)
    : count_(graph.groups.size()), faults_(count_), after_(count_ + 1), first_(count_, false) {
  const auto members = members_of_groups(graph);
  for (size_t g = 0; g < count_; ++g) {
    for (ValueId v : inputs_of(graph, members[g])) {
      readers_[v].push_back(g);
      if (const int from = graph.node(v).group; from >= 0) after_[from].insert(g);
    }
  }
}

bool GroupOrder::put_behind_readers(size_t writer, ValueId v) {
  const std::vector<size_t>& readers = readers_[v];
  if (std::ranges::all_of(readers, [&](size_t g) { return g == writer; })) return true;
  const std::set<size_t> behind = behind_of(writer);
  if (std::ranges::any_of(readers, [&](size_t g) { return g != writer && behind.contains(g); })) return false;
  for (size_t g : readers)
    if (g != writer) after_[g].insert(writer);
  return true;
}

// Per group: whether it is one of these, or one that these wait for.
std::vector<bool> GroupOrder::with_earlier(std::span<const size_t> groups) const {
  std::vector<std::vector<size_t>> before(count_ + 1);
  for (size_t g = 0; g < count_; ++g)
    for (size_t next : after_[g]) before[next].push_back(g);
  std::vector<bool> found(count_, false);
  std::vector<size_t> work(groups.begin(), groups.end());
  while (!work.empty()) {
    const size_t g = work.back();
    work.pop_back();
    if (found[g]) continue;
    found[g] = true;
    work.insert(work.end(), before[g].begin(), before[g].end());
  }
  return found;
}

void GroupOrder::put_behind_faults(const Graph& graph, std::span<const size_t> writers) {
  if (writers.empty()) return;
  std::vector<size_t> faulty;
  for (ValueId v = 0; v < graph.nodes.size(); ++v)
    if (graph.node(v).group >= 0 && may_find_fault(graph, v))
      faulty.push_back(static_cast<size_t>(graph.node(v).group));
  const std::vector<bool> leads = with_earlier(faulty);
  for (size_t g : faulty) after_[g].insert(faults_);
  for (size_t writer : writers)
    if (!leads[writer]) after_[faults_].insert(writer);
}

void GroupOrder::put_checks_first(const Graph& graph) {
  const std::vector<bool> waits = waits_for_checks(graph);
  std::vector<bool> checks(count_, false), late(count_, false);
  for (ValueId v = 0; v < graph.nodes.size(); ++v) {
    const int group = graph.node(v).group;
    if (group < 0) continue;
    checks[group] = checks[group] || may_find_fault(graph, v);
    late[group] = late[group] || waits[v];
  }
  std::vector<size_t> early;
  for (size_t g = 0; g < count_; ++g)
    if (checks[g] && !late[g]) early.push_back(g);
  first_ = with_earlier(early);
}

std::set<size_t> GroupOrder::behind_of(size_t group) const {
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

// Runs, again and again, the ready group with the lowest growth, or with by_growth = false the one with the lowest number.
GroupOrder::Order GroupOrder::sorted(Memory memory, bool by_growth) const {
  std::vector<int> waits(count_ + 1, 0);
  for (const auto& list : after_)
    for (size_t g : list) ++waits[g];
  using Key = std::pair<double, size_t>;
  std::vector<Key> key_of(count_ + 1, {0, count_ + 1});
  std::set<Key> ready;
  auto add = [&](size_t g) {
    double first = by_growth ? memory.growth(g) : 0;
    if (g == faults_ || first_[g]) first = -std::numeric_limits<double>::infinity();
    ready.insert(key_of[g] = {first, g});
  };
  for (size_t g = 0; g <= count_; ++g)
    if (waits[g] == 0) add(g);
  Order order;
  while (!ready.empty()) {
    const size_t g = ready.extract(ready.begin()).value().second;
    if (g != faults_) {
      order.groups.push_back(g);
      memory.run(g, [&](size_t changed) {
        if (ready.erase(key_of[changed])) add(changed);
      });
    }
    for (size_t next : after_[g])
      if (--waits[next] == 0) add(next);
  }
  TENON_CHECK(order.groups.size() == count_, "groups depend on each other in a circle");
  order.peak = memory.peak();
  return order;
}

void GroupOrder::apply(Graph& graph, std::span<const ValueId> kept) const {
  const Memory memory(graph, kept);
  Order order = sorted(memory, /*by_growth=*/false);
  Order small = sorted(memory, /*by_growth=*/true);
  if (small.peak < order.peak) order = std::move(small);
  std::vector<int> number(count_);
  std::vector<Group> groups;
  for (size_t g = 0; g < count_; ++g) {
    number[order.groups[g]] = static_cast<int>(g);
    groups.push_back(std::move(graph.groups[order.groups[g]]));
  }
  graph.groups = std::move(groups);
  for (Node& n : graph.nodes)
    if (n.group >= 0) n.group = number[n.group];
}

}  // namespace tenon
