// See passes.h. Groups run in the order of their numbers. The turn is the step at which most bytes are alive; in a
// graph with gradients it is where the forward pass ends. A value that lives across the turn is dropped, and the
// groups that made it run again before its next reader, for which values that were kept are the start.
//
//   cheap     first, values that maps and reductions make from values that live across the turn anyway
//   segments  if that is not enough, the steps before the turn are cut into segments. What crosses a cut is kept.
//             Everything inside a segment is dropped, and computed again from the cut when the first of it is read.
//             Then as much as the budget allows is kept after all, the costliest first.
//
// A group that runs again is a group of its own, so no pass that merges nodes may follow. Tested by
// tests/unit/runtime/recompute_test.cc.
#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

// How many candidates are tried one by one, so that a large graph does not take long.
constexpr size_t kMostTried = 512;

// One execution of a group.
struct Run {
  int group;
  bool again;
  std::vector<int> makes;  // per output of the group: the copy that this execution makes, or -1
  std::vector<int> reads;  // per input of the group: the copy that it reads, or -1: no intermediate
  bool live = false;       // whether an output of the graph needs what it makes
};
// One copy of a value, alive from the execution `made` to its last reader.
struct Copy {
  ValueId value;
  int made, last = -1;  // last: -1 if nothing that is live reads it
};
struct Schedule {
  std::vector<Run> runs;
  std::vector<Copy> copies;
  int64_t peak = 0;
  int peak_at = 0;
  double cost = 0;  // of what runs again
};

class Recompute {
 public:
  explicit Recompute(const Graph& graph) : g_(graph), members_(members_of_groups(graph)) {}

  // Fails if a size has no upper bound.
  Status measure() {
    const Uses uses(g_);
    bytes_.assign(g_.nodes.size(), 0);
    made_by_.assign(g_.nodes.size(), -1);
    for (size_t i = 0; i < members_.size(); ++i) {
      outputs_.push_back(outputs_of(g_, uses, members_[i]));
      inputs_.push_back(inputs_of(g_, members_[i]));
      cost_.push_back(0);
      cheap_.push_back(true);
      for (ValueId v : members_[i]) {
        const Op& row = op(g_.node(v).op);
        cheap_.back() =
            cheap_.back() && (row.kind == Kind::map || row.kind == Kind::reduce || row.kind == Kind::move);
        cost_.back() += cost_of(v);
      }
      for (ValueId v : outputs_.back()) {
        if (uses.is_output(v)) continue;  // in the host's memory
        made_by_[v] = static_cast<int>(i);
        TENON_ASSIGN(bytes_[v], bytes_of(v));
      }
    }
    return {};
  }

  // Decides what is dropped; false if the budget is met without, or nothing helps.
  bool decide(int64_t budget) {
    kept_.assign(g_.nodes.size(), true);
    const Schedule plain = schedule();
    before_ = plain.peak;
    turn_ = plain.peak_at;
    if (before_ <= budget) return false;
    find_crossing(plain);
    drop_cheap(budget);
    if (schedule().peak > budget) cut(budget);
    return schedule().peak < before_;
  }

  Graph rebuild(Recomputed* done) const;

 private:
  Result<int64_t> bytes_of(ValueId v) const {
    int64_t bytes = size_of(g_.type(v).dtype);
    for (Dim d : g_.type(v).shape) {
      const auto most = g_.dims->upper_bound(d);
      if (!most || *most >= DimTable::kHighest)
        return unsupported("a budget of bytes needs a range for each symbol: " + g_.value_name(v) + " is " +
                           g_.print_type(g_.type(v)) +
                           "; state it at the start of the graph, as in assume N in [1, 4096]");
      if (__builtin_mul_overflow(bytes, std::max<int64_t>(*most, 0), &bytes)) return INT64_MAX / 4;
    }
    return std::min(bytes, INT64_MAX / 4);
  }

  // Multiplications, about.
  double cost_of(ValueId v) const {
    const Node& node = g_.node(v);
    const Op& row = op(node.op);
    auto elements = [&](const Dims& shape, size_t first) {
      double n = 1;
      for (size_t i = first; i < shape.size(); ++i)
        n *= static_cast<double>(std::max<int64_t>(g_.dims->upper_bound(shape[i]).value_or(64), 1));
      return n;
    };
    double inner = row.expensive ? 10 : 1;
    if (row.kind == Kind::contract || row.kind == Kind::composite) {
      inner = 100;
      if (node.op == ops::matmul || node.op == ops::linear)
        inner = elements({g_.type(node.inputs[0]).shape.back()}, 0);
      if (node.op == ops::convolution) inner = elements(g_.type(node.inputs[1]).shape, 1);
    }
    return elements(node.type.shape, 0) * inner;
  }

  bool intermediate(ValueId v) const { return made_by_[v] >= 0; }

  // The steps, with dropped values made again on demand. kept_: which values stay after the turn.
  Schedule schedule() const;
  // Makes the values again that are not at hand.
  void demand(Schedule& s, std::vector<int>& at, std::vector<ValueId> wanted) const;
  void append(Schedule& s, std::vector<int>& at, int group, bool again) const;
  void find_live(Schedule& s) const;
  std::set<ValueId> needed_in(const Schedule& s, const Run& run, int64_t* bytes) const;
  void find_crossing(const Schedule& plain);
  void drop_cheap(int64_t budget);
  void cut(int64_t budget);
  void keep_at_cuts(int parts);
  void keep_costly(int64_t budget);

  const Graph& g_;
  std::vector<std::vector<ValueId>> members_, outputs_, inputs_;
  std::vector<int64_t> bytes_;  // per intermediate
  std::vector<int> made_by_;    // per intermediate: its group; -1: it is in the host's memory or a constant
  std::vector<double> cost_;    // per group
  std::vector<bool> cheap_;     // per group
  std::vector<bool> kept_;
  std::vector<ValueId> crossing_;  // live across the turn
  int turn_ = 0;
  int64_t before_ = 0;
};

void Recompute::append(Schedule& s, std::vector<int>& at, int group, bool again) const {
  const int now = static_cast<int>(s.runs.size());
  Run made{group, again, {}, {}};
  for (ValueId v : inputs_[group]) made.reads.push_back(intermediate(v) ? at[v] : -1);
  for (ValueId v : outputs_[group]) {
    made.makes.push_back(-1);
    made.live = made.live || (!intermediate(v) && !again);
    if (!intermediate(v) || (again && at[v] >= 0)) continue;
    made.makes.back() = at[v] = static_cast<int>(s.copies.size());
    s.copies.push_back({v, now});
  }
  s.runs.push_back(std::move(made));
}

// Finds what is live, and with it the last readers.
void Recompute::find_live(Schedule& s) const {
  for (int i = static_cast<int>(s.runs.size()); i-- > 0;) {
    Run& run = s.runs[i];
    for (int copy : run.makes) run.live = run.live || (copy >= 0 && s.copies[copy].last >= 0);
    if (!run.live) continue;
    for (int copy : run.reads)
      if (copy >= 0 && s.copies[copy].last < 0) s.copies[copy].last = i;
    if (run.again) s.cost += cost_[run.group];
  }
}

void Recompute::demand(Schedule& s, std::vector<int>& at, std::vector<ValueId> wanted) const {
  std::set<int> groups;  // in running order
  while (!wanted.empty()) {
    const ValueId v = wanted.back();
    wanted.pop_back();
    if (!intermediate(v) || at[v] >= 0 || !groups.insert(made_by_[v]).second) continue;
    for (ValueId operand : inputs_[made_by_[v]]) wanted.push_back(operand);
  }
  for (int group : groups) append(s, at, group, /*again=*/true);
}

Schedule Recompute::schedule() const {
  Schedule s;
  std::vector<int> at(g_.nodes.size(), -1);  // the copy that is at hand
  for (int group = 0; group < static_cast<int>(members_.size()); ++group) {
    demand(s, at, inputs_[group]);
    append(s, at, group, /*again=*/false);
    if (group != turn_) continue;
    for (size_t v = 0; v < at.size(); ++v)
      if (!kept_[v]) at[v] = -1;
  }
  find_live(s);
  std::vector<int64_t> change(s.runs.size() + 1, 0);
  for (const Copy& copy : s.copies) {
    if (copy.last < 0) continue;
    change[copy.made] += bytes_[copy.value];
    change[copy.last + 1] -= bytes_[copy.value];
  }
  int64_t alive = 0;
  for (size_t i = 0; i < s.runs.size(); ++i) {
    alive += change[i];
    if (alive <= s.peak) continue;
    s.peak = alive;
    s.peak_at = s.runs[i].group;
  }
  return s;
}

void Recompute::find_crossing(const Schedule& plain) {
  for (const Copy& copy : plain.copies)
    if (copy.made <= turn_ && copy.last > turn_) crossing_.push_back(copy.value);
}

// What makes a dropped value is kept, so nothing is computed again twice in a row.
void Recompute::drop_cheap(int64_t budget) {
  std::vector<ValueId> candidates;
  for (ValueId v : crossing_)
    if (cheap_[made_by_[v]]) candidates.push_back(v);
  std::ranges::stable_sort(candidates, std::greater(), [&](ValueId v) { return bytes_[v]; });
  if (candidates.size() > kMostTried) candidates.resize(kMostTried);
  std::set<ValueId> crossing(crossing_.begin(), crossing_.end()), needed;
  int64_t peak = before_;
  for (ValueId v : candidates) {
    if (peak <= budget) return;
    const std::vector<ValueId>& from = inputs_[made_by_[v]];
    const bool at_hand = std::ranges::all_of(
        from, [&](ValueId u) { return !intermediate(u) || (kept_[u] && crossing.contains(u)); });
    if (!at_hand || needed.contains(v)) continue;
    kept_[v] = false;
    const int64_t now = schedule().peak;
    if (now > peak) {
      kept_[v] = true;
      continue;
    }
    peak = now;
    needed.insert(from.begin(), from.end());
  }
}

// Cuts the steps before the turn into `parts` of about equally many bytes, each cut where little crosses it.
void Recompute::keep_at_cuts(int parts) {
  std::vector<int> last(g_.nodes.size(), -1);  // the last reader up to the turn
  for (int group = 0; group <= turn_; ++group)
    for (ValueId v : inputs_[group]) last[v] = group;
  std::vector<int64_t> crosses(turn_ + 2, 0), before(turn_ + 2, 0);
  for (ValueId v = 0; v < g_.nodes.size(); ++v) {
    if (!intermediate(v) || made_by_[v] > turn_) continue;
    before[made_by_[v] + 1] += bytes_[v];
    if (last[v] <= made_by_[v]) continue;
    crosses[made_by_[v]] += bytes_[v];
    crosses[last[v]] -= bytes_[v];
  }
  std::partial_sum(crosses.begin(), crosses.end(), crosses.begin());
  std::partial_sum(before.begin(), before.end(), before.begin());
  const int64_t total = before[turn_ + 1];
  std::fill(kept_.begin(), kept_.end(), false);
  int from = 0;
  for (int part = 1; part < parts; ++part) {
    auto step_at = [&](double share) {
      const auto bytes = static_cast<int64_t>(share * static_cast<double>(total) / parts);
      return static_cast<int>(std::ranges::lower_bound(before, bytes) - before.begin());
    };
    const int low = std::max(from, step_at(part - 0.4)), high = std::min(turn_, step_at(part + 0.4));
    if (low > high) continue;
    const int cut = static_cast<int>(std::min_element(crosses.begin() + low, crosses.begin() + high + 1) -
                                     crosses.begin());
    for (ValueId v = 0; v < g_.nodes.size(); ++v)
      if (intermediate(v) && made_by_[v] <= cut && last[v] > cut) kept_[v] = true;
    from = cut + 1;
  }
  for (ValueId v : crossing_)  // the last segment would be read at once
    if (made_by_[v] >= from) kept_[v] = true;
}

void Recompute::cut(int64_t budget) {
  std::vector<bool> best = kept_;
  Schedule found = schedule();
  for (int parts = 2; parts <= std::min(turn_ + 1, 512); parts += 1 + parts / 4) {
    keep_at_cuts(parts);
    Schedule s = schedule();
    const bool fits = s.peak <= budget, fitted = found.peak <= budget;
    if (fits == fitted ? (fits ? s.cost >= found.cost : s.peak >= found.peak) : fitted) continue;
    best = kept_;
    found = std::move(s);
  }
  kept_ = std::move(best);
  if (found.peak <= budget) keep_costly(budget);
}

void Recompute::keep_costly(int64_t budget) {
  std::vector<ValueId> dropped;
  for (ValueId v : crossing_)
    if (!kept_[v]) dropped.push_back(v);
  std::ranges::stable_sort(dropped, std::greater(), [&](ValueId v) {
    return cost_[made_by_[v]] / static_cast<double>(std::max<int64_t>(bytes_[v], 1));
  });
  if (dropped.size() > kMostTried) dropped.resize(kMostTried);
  double cost = schedule().cost;
  for (ValueId v : dropped) {
    kept_[v] = true;
    const Schedule s = schedule();
    if (s.peak > budget || s.cost > cost)
      kept_[v] = false;
    else
      cost = s.cost;
  }
}

// Copies the graph in the order of the schedule. Members of a group that nothing reads in this execution are left
// out; views and literals are copied for each execution that reads them.
class Copier {
 public:
  Copier(const Graph& from, Graph& to) : from_(from), to_(to), fixed_(from.nodes.size(), kNoValue) {}

  void fix(ValueId v, ValueId as) { fixed_[v] = as; }
  ValueId fixed(ValueId v) const { return fixed_[v]; }

  // Adds v of an execution. seen: what the execution has already, and the copies of stored values that it reads.
  ValueId add(ValueId v, std::unordered_map<ValueId, ValueId>& seen, int group, bool rename) {
    Node node = from_.node(v);
    for (ValueId& operand : node.inputs) operand = read(operand, seen, rename);
    if (rename || named_.contains(v)) node.name.clear();
    named_.insert(v);
    node.group = group;
    to_.nodes.push_back(std::move(node));
    return seen[v] = static_cast<ValueId>(to_.nodes.size() - 1);
  }
  ValueId read(ValueId v, std::unordered_map<ValueId, ValueId>& seen, bool rename) {
    if (auto it = seen.find(v); it != seen.end()) return it->second;
    if (fixed_[v] != kNoValue) return fixed_[v];
    TENON_CHECK(is_inlined(from_, v), "a stored value is at hand: " + from_.value_name(v));
    return add(v, seen, -1, rename);
  }

 private:
  const Graph& from_;
  Graph& to_;
  std::vector<ValueId> fixed_;  // inputs, constants and outputs
  std::set<ValueId> named_;
};

// The members of the group that this execution needs; *bytes: of what it makes.
std::set<ValueId> Recompute::needed_in(const Schedule& s, const Run& run, int64_t* bytes) const {
  const std::vector<ValueId>&outputs = outputs_[run.group], &members = members_[run.group];
  std::set<ValueId> needed;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int copy = run.makes[i];
    if (copy >= 0 ? s.copies[copy].last < 0 : run.again) continue;  // nothing reads it, or it is at hand
    needed.insert(outputs[i]);
    if (copy >= 0) *bytes += bytes_[outputs[i]];
  }
  for (auto it = members.rbegin(); it != members.rend(); ++it) {
    if (!needed.contains(*it)) continue;
    std::vector<ValueId> work = g_.node(*it).inputs;
    while (!work.empty()) {
      const ValueId v = work.back();
      work.pop_back();
      const std::vector<ValueId>& from = g_.node(v).inputs;
      if (std::ranges::binary_search(members, v))
        needed.insert(v);
      else if (is_inlined(g_, v))
        work.insert(work.end(), from.begin(), from.end());
    }
  }
  return needed;
}

Graph Recompute::rebuild(Recomputed* done) const {
  const Schedule s = schedule();
  Graph out;
  out.name = g_.name;
  out.dims = g_.dims;
  Copier copier(g_, out);
  for (InputBinding in : g_.inputs) {
    out.nodes.push_back(g_.node(in.value));
    copier.fix(in.value, static_cast<ValueId>(out.nodes.size() - 1));
    in.value = copier.fixed(in.value);
    out.inputs.push_back(std::move(in));
  }
  for (ValueId v = 0; v < g_.nodes.size(); ++v) {
    if (g_.node(v).op != ops::constant || g_.node(v).group >= 0) continue;
    out.nodes.push_back(g_.node(v));
    copier.fix(v, static_cast<ValueId>(out.nodes.size() - 1));
  }
  std::vector<ValueId> copy_at(s.copies.size(), kNoValue);
  *done = {before_, s.peak, 0, 0};
  std::vector<bool> ran(members_.size(), false);
  for (const Run& run : s.runs) {
    if (!run.live) continue;
    int64_t bytes = 0;
    const std::vector<ValueId>& outputs = outputs_[run.group];
    const std::set<ValueId> needed = needed_in(s, run, &bytes);
    const bool first = !ran[run.group];  // nothing needed its result before
    ran[run.group] = true;
    std::unordered_map<ValueId, ValueId> seen;
    for (size_t i = 0; i < run.reads.size(); ++i)
      if (run.reads[i] >= 0) seen[inputs_[run.group][i]] = copy_at[run.reads[i]];
    const int number = static_cast<int>(out.groups.size());
    for (ValueId v : members_[run.group])
      if (needed.contains(v)) copier.add(v, seen, number, /*rename=*/!first);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!needed.contains(outputs[i])) continue;
      if (run.makes[i] >= 0) copy_at[run.makes[i]] = seen[outputs[i]];
      if (!intermediate(outputs[i]) && !run.again) copier.fix(outputs[i], seen[outputs[i]]);
    }
    out.groups.push_back(g_.groups[run.group]);
    if (first) continue;
    out.groups.back().why = "keeping its result takes " + std::to_string(bytes) + " bytes";
    out.groups.back().again = true;
    ++done->steps;
    done->bytes += bytes;
  }
  std::unordered_map<ValueId, ValueId> seen;
  for (OutputBinding output : g_.outputs) {
    output.value = copier.read(output.value, seen, /*rename=*/false);
    out.outputs.push_back(std::move(output));
  }
  return out;
}

}  // namespace

Result<Graph> recompute(const Graph& graph, int64_t budget, Recomputed* done) {
  Recompute pass(graph);
  TENON_TRY(pass.measure());
  *done = {};
  return pass.decide(budget) ? pass.rebuild(done) : graph;
}

}  // namespace tenon
