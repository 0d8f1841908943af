// See repeated_work.h.
#include "jit/repeated_work.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "jit/kernel/walk.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

constexpr int64_t kStore = 4;  // the cost of a store, where that of a cheap map is 1
int64_t cost_of_map(OpId map) { return op(map).expensive ? 8 : 1; }

// Whether a loop computes its maps at many places of their results for one place of its own result. Each step of a scan reads the step
// before at two places, so five steps in one loop would compute the first one at 32. It takes less time to store a step on the way.
// `free`: the cost of repeated maps that is always less than that of a store and a load. There is none where steps have a kernel for each
// piece: each further step adds kernels, and its result is alive beside those of the others.
// `once`: the cost of all maps of the group.
bool repeats_places(const std::set<OpId>& maps, int64_t once, const LoweredKernel& kernel, int64_t free) {
  constexpr int64_t kMostTimes = 2;
  struct Iteration {
    int64_t work = 0;
    std::map<int, int64_t> stored;  // elements of each buffer
  };
  std::map<const Stmt*, Iteration> loops;
  each_stmt(kernel.kernel.body, [&](const Stmt& s, const Around& around) {
    if (s.kind == Stmt::Kind::op && maps.contains(s.op)) loops[around.loop].work += cost_of_map(s.op);
    if (s.kind == Stmt::Kind::store) ++loops[around.loop].stored[s.buffer];
  });
  return std::ranges::any_of(loops, [&](const auto& loop) {
    int64_t places = 1;
    for (const auto& [buffer, count] : loop.second.stored) places = std::max(places, count);
    return loop.second.work > kMostTimes * once * places + free;
  });
}

// Whether the group computes maps of a table for each element that it gathers from the table, and the table has far fewer elements.
bool repeats_table(const TrialGroup& group) {
  constexpr int64_t kSmall = 1 << 12;  // elements of a table that takes no time to store
  constexpr int64_t kUnknown = 4;      // how often an unknown number of gathers reads a small table
  const Graph& g = group.graph;
  const auto elements = [&](ValueId v) { return g.dims->product(std::span(g.type(v).shape)); };
  const auto is_member = [&](ValueId v) { return std::ranges::binary_search(group.members, v); };
  const auto work_of = [&](const auto& self, ValueId v, int64_t table, std::set<ValueId>& seen) -> int64_t {
    const bool map = is_member(v) && op(g.node(v).op).kind == Kind::map;
    if ((!map && !is_inlined(g, v)) || !elements(v).is_const() || !seen.insert(v).second) return 0;
    int64_t work = map ? cost_of_map(g.node(v).op) * std::min(elements(v).value(), table) : 0;
    for (const ValueId in : g.node(v).inputs) work += self(self, in, table, seen);
    return work;
  };
  return std::ranges::any_of(group.members, [&](ValueId v) {
    const Node& n = g.node(v);
    if (n.op != ops::gather && n.op != ops::take_along) return false;
    const Dim table = elements(n.inputs[0]), gathered = elements(v);
    if (!table.is_const() || table.value() == 0) return false;
    if (!gathered.is_const() && table.value() > kSmall) return false;
    std::set<ValueId> seen;
    const int64_t work = work_of(work_of, n.inputs[0], table.value(), seen);
    const int64_t times = gathered.is_const() ? gathered.value() / table.value() : kUnknown;
    return work * (times - 1) > kStore * table.value();
  });
}

// Whether the loops compute places along one axis, such as those of resized columns, again for each row: maps of iotas and of single
// numbers, which members with more elements read.
bool repeats_places_of_axis(const TrialGroup& group) {
  constexpr int64_t kCheap = 3;  // the cost of maps that take no longer than the load of a stored place
  const Graph& g = group.graph;
  const auto elements = [&](ValueId v) { return g.dims->product(std::span(g.type(v).shape)); };
  const auto is_member = [&](ValueId v) { return std::ranges::binary_search(group.members, v); };
  const auto through_views = [&](ValueId v) {
    while (!is_member(v) && is_inlined(g, v) && !is_literal(g, v)) v = g.node(v).inputs[0];
    return v;
  };
  const auto has_one_axis = [&](ValueId v) {
    return std::ranges::count_if(g.type(v).shape, [](Dim d) { return d != Dim(1); }) == 1;
  };
  std::set<ValueId> places;
  int64_t work = 0;
  bool read = false;  // by a member with more elements
  for (const ValueId v : group.members) {
    bool place = op(g.node(v).op).kind == Kind::map && has_one_axis(v);
    for (const ValueId in : g.node(v).inputs) {
      const ValueId from = through_views(in);
      place = place && (is_literal(g, from) || places.contains(from) || elements(from) == Dim(1));
    }
    if (place) {
      places.insert(v);
      work += cost_of_map(g.node(v).op);
      continue;
    }
    read = read || std::ranges::any_of(g.node(v).inputs, [&](ValueId in) {
             const ValueId from = through_views(in);
             return places.contains(from) && elements(from) != elements(v);
           });
  }
  return read && work > kCheap;
}

// Whether a kernel has more folds than the group has reductions: it computes a reduction at several places for one of its results.
bool repeats_folds(size_t reductions, const LoweredKernel& kernel) {
  size_t folds = 0;
  each_stmt(kernel.kernel.body, [&](const Stmt& s, const Around& around) {
    const bool part = around.loop && around.loop->kind == Stmt::Kind::reduce;  // of a fold
    if (s.kind == Stmt::Kind::reduce && !part) folds += s.results.size();
  });
  return folds > reductions;
}

// The elements that a kernel computes values from, as sums of loop variables: x[i + k, j] varies along i + k and along j, and so does x[f(i +
// k), j]. A set of variables with one coefficient is a number with a bit for each.
class Directions {
 public:
  explicit Directions(const Kernel& kernel)
      : of_(kernel.types.size()), from_memory_(kernel.types.size()), is_sum_(kernel.types.size()) {
    visit(kernel, kernel.body);
  }

  uint64_t bit(const Axis& axis) const { return of_[axis.var][0]; }
  // Whether the value is the same for several points of the loops with these variables.
  bool repeats(Ref value, uint64_t variables) const {
    std::vector<uint64_t> independent;
    for (uint64_t d : of_[value]) {
      d &= variables;
      for (const uint64_t other : independent) d = std::min(d, d ^ other);
      if (d != 0) independent.push_back(d);
    }
    return independent.size() < static_cast<size_t>(std::popcount(variables));
  }
  // Whether the value is computed from loads, not from loop variables and sizes alone.
  bool from_memory(Ref value) const { return from_memory_[value]; }
  // Whether the value is a function of one loop variable, or of a sum of some.
  bool is_position(Ref value) const { return !from_memory_[value] && of_[value].size() == 1; }
  bool is_loop(Ref value) const { return loops_.contains(value); }
  bool varies(Ref value, uint64_t variables) const {
    return std::ranges::any_of(of_[value], [&](uint64_t d) { return (d & variables) != 0; });
  }

 private:
  void visit(const Kernel& kernel, const Block& block) {
    for (const Stmt& s : block) {
      for (const Axis& a : s.axes) {
        of_[a.var] = a.of == kNoRef ? std::vector{uint64_t{1} << std::min(axes_++, 63)} : of_[a.of];
        loops_.insert(a.var);
      }
      visit(kernel, s.body);
      if (s.kind == Stmt::Kind::store) continue;
      const bool load = s.kind == Stmt::Kind::load;
      bool memory = load;
      std::vector<uint64_t> found;
      std::set<Ref> uses;
      collect_uses(s, uses);
      for (Ref r : uses) {
        memory = memory || from_memory_[r];
        if (!load || !loops_.contains(r)) append(found, r);
      }
      if (load) add_address(kernel, s, found);
      const bool sum = is_sum(s);
      if (sum && found.size() > 1)
        found = {std::accumulate(found.begin(), found.end(), uint64_t{0}, std::bit_or{})};
      each_result(s, [&](Ref r) {
        of_[r] = found;
        from_memory_[r] = memory;
        is_sum_[r] = sum;
      });
    }
  }
  // Whether the statement adds loop variables and numbers that are the same in all loops.
  bool is_sum(const Stmt& s) const {
    if (s.kind == Stmt::Kind::index) return true;
    return s.kind == Stmt::Kind::op && s.op == ops::add && std::ranges::all_of(s.args, [&](Ref r) {
             return is_sum_[r] || (of_[r].empty() && !from_memory_[r]);
           });
  }
  void append(std::vector<uint64_t>& found, Ref r) const {
    for (const uint64_t d : of_[r])
      if (std::ranges::count(found, d) == 0) found.push_back(d);
  }
  void add_address(const Kernel& kernel, const Stmt& load, std::vector<uint64_t>& found) const {
    // Each iteration of the par nest stores the elements of its locals.
    if (kernel.buffers[static_cast<size_t>(load.buffer)].role == Buffer::Role::local)
      for (int axis = 0; axis < axes_; ++axis) found.push_back(uint64_t{1} << std::min(axis, 63));
    for (const Term& t : load.address) {
      if (!loops_.contains(t.var)) continue;
      uint64_t together = 0;
      for (const Term& u : load.address)
        if (loops_.contains(u.var) && u.factor == t.factor && u.size == t.size) together |= of_[u.var][0];
      found.push_back(together);
    }
  }

  std::vector<std::vector<uint64_t>> of_;
  std::vector<bool> from_memory_, is_sum_;
  std::set<Ref> loops_;
  int axes_ = 0;
};

// The loops that gather from each tensor element by element, not whole rows: rows of a table are read as fast as stored ones.
using Gathers = std::map<BufferId, std::set<const Stmt*>>;

void add_gathers(const LoweredKernel& kernel, const Directions& directions, Gathers& gathers) {
  const auto visit = [&](const auto& self, const Block& block, const Stmt* pass, uint64_t innermost) -> void {
    for (const Stmt& s : block) {
      const auto buffer = static_cast<size_t>(s.buffer);  // locals follow the others
      if (s.kind == Stmt::Kind::load && pass != nullptr && buffer < kernel.buffers.size()) {
        const auto gathered = [&](const Term& t) {
          const bool neighbours = t.factor == 1 && t.size < 0;
          return t.var != kNoRef && !directions.is_loop(t.var) &&
                 directions.varies(t.var, neighbours ? ~uint64_t{0} : innermost);
        };
        if (std::ranges::any_of(s.address, gathered)) gathers[kernel.buffers[buffer]].insert(pass);
      }
      if (is_loop(s))
        self(self, s.body, pass ? pass : &s, s.axes.empty() ? innermost : directions.bit(s.axes.back()));
    }
  };
  for (const Stmt& nest : kernel.kernel.body) visit(visit, nest.body, nullptr, 0);
}

// Whether several loops gather the same elements: one of them could store what it computes from the elements for the others.
bool repeats_gathers(const Gathers& gathers) {
  return std::ranges::any_of(gathers, [](const auto& of_tensor) { return of_tensor.second.size() > 1; });
}

// Whether a loop spends most of its work on maps that are the same at several of its points. A product of a map by a matrix computes the map
// again for each column, and windows that overlap compute it again for each window; loops that store the map compute it once. `folded`: the
// values that only folds read.
bool repeats_maps(const std::set<OpId>& maps, const LoweredKernel& kernel, const Directions& directions,
                  const std::set<ValueId>& folded) {
  constexpr int64_t kFew = 2;
  const auto is_long = [&](const Axis& a) {
    if (a.extent.size < 0) return a.extent.factor > kFew;
    const Dim size = kernel.sizes[static_cast<size_t>(a.extent.size)];
    return !size.is_const() || a.extent.factor * size.value() > kFew;
  };
  const auto any_loop = [&](const auto& self, const Stmt& loop, uint64_t variables) -> bool {
    for (const Axis& a : loop.axes)
      if (a.of != kNoRef || is_long(a)) variables |= directions.bit(a);
    const bool lanes = loop.kind == Stmt::Kind::par && !loop.axes.empty();
    int64_t repeated = 0, rest = static_cast<int64_t>(loop.yields.size());
    bool innermost = true;
    std::set<Ref> read;  // by repeated maps
    for (const Stmt& s : loop.body) {
      if (is_loop(s)) {
        if (self(self, s, variables)) return true;
        innermost = false;
      }
      if (s.kind == Stmt::Kind::op) {
        const bool hoisted = lanes && !directions.varies(s.result, directions.bit(loop.axes.back()));
        // Cheap functions of several loop variables, such as masks, take no longer than a load.
        const bool cheap =
            !directions.from_memory(s.result) && !directions.is_position(s.result) && !op(s.op).expensive;
        const bool free = hoisted || cheap;
        const bool is_map = maps.contains(s.op) || s.op == ops::index_in;  // of a gather
        const bool repeats = !free && is_map && directions.repeats(s.result, variables);
        (repeats ? repeated : rest) += free ? 0 : cost_of_map(s.op);
        if (repeats) read.insert(s.args.begin(), s.args.end());
      }
      if (s.kind == Stmt::Kind::cast && directions.is_position(s.result) &&
          directions.repeats(s.result, variables))
        ++repeated;
      if (s.kind == Stmt::Kind::store) {
        const auto buffer = static_cast<size_t>(s.buffer);  // locals follow the others
        const ValueId* v =
            buffer < kernel.buffers.size() ? std::get_if<ValueId>(&kernel.buffers[buffer]) : nullptr;
        rest += v && folded.contains(*v) ? 1 : kStore;
      }
    }
    // One load of the stored map replaces the loads of its operands.
    const auto loads = std::ranges::count_if(
        loop.body, [&](const Stmt& s) { return s.kind == Stmt::Kind::load && read.contains(s.result); });
    return innermost && repeated > 0 && repeated + std::max<int64_t>(loads - 1, 0) >= rest;
  };
  return any_loop(any_loop, kernel.kernel.body[0], 0);
}

}  // namespace

const char* repeated_work(const TrialGroup& group) {
  const auto& [graph, uses, members, outputs, kernels, pieces] = group;
  const auto folds = [&](ValueId v) { return op(graph.node(v).op).kind == Kind::reduce; };
  std::set<ValueId> folded;
  for (ValueId v : outputs)
    if (!uses.is_output(v) && std::ranges::all_of(uses.users(v), folds)) folded.insert(v);
  const auto reductions = static_cast<size_t>(std::ranges::count_if(members, folds));
  std::set<OpId> maps;
  int64_t once = 0;
  for (ValueId v : members)
    if (const OpId id = graph.node(v).op; op(id).kind == Kind::map) {
      maps.insert(id);
      once += cost_of_map(id);
    }
  if (repeats_table(group)) return "its loops would compute a table again for each element gathered from it";
  if (repeats_places_of_axis(group))
    return "its loops would compute the places along an axis again for each row";
  Gathers gathers;
  for (const LoweredKernel& k : kernels) {
    if (repeats_places(maps, once, k, pieces ? 0 : 8))
      return "its loops would compute the same values at many places";
    const Directions directions(k.kernel);
    if (pieces) gathers.clear();  // each piece of a concatenation reads other elements
    add_gathers(k, directions, gathers);
    if (repeats_gathers(gathers)) return "its loops would gather the same elements again";
    if (repeats_folds(reductions, k) || repeats_maps(maps, k, directions, folded))
      return "its loops would compute the same values again";
  }
  return nullptr;
}

}  // namespace tenon::jit
