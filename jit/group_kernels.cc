// See group_kernels.h.
#include "jit/group_kernels.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "jit/kernel/walk.h"
#include "jit/pipeline.h"
#include "jit/schedule/schedule.h"
#include "src/base/align.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {

Status has_loops(const Graph& graph, ValueId v) {
  const Op& row = op(graph.node(v).op);
  // Kernels hold 16-bit floats as f32, so the bits of the 16-bit type are not available.
  if (row.name == "bitcast")
    for (DType t : {graph.type(v).dtype, graph.type(graph.node(v).inputs[0]).dtype})
      if (t != compute_type(t))
        return unsupported("the bits of a 16-bit float are not those of a kernel's value");
  if (row.kind == Kind::map || row.kind == Kind::reduce || row.kind == Kind::scan || row.kind == Kind::move ||
      row.kind == Kind::input)
    return {};
  return unsupported(std::string(row.name) + " has no loops of its own");
}

namespace {

int64_t cost(OpId map) { return op(map).expensive ? 8 : 1; }

std::set<OpId> maps_of(const Graph& graph, std::span<const ValueId> members) {
  std::set<OpId> maps;
  for (ValueId v : members)
    if (const OpId id = graph.node(v).op; op(id).kind == Kind::map) maps.insert(id);
  return maps;
}

// Whether a loop computes its maps at many places of their results for one place of its own result. Each step of a scan reads the step
// before at two places, so five steps in one loop would compute the first one at 32. It takes less time to store a step on the way.
// `free`: the cost of repeated maps that is always less than that of a store and a load. There is none where steps have a kernel for each
// piece: each further step adds kernels, and its result is alive beside those of the others.
bool repeats_work(const Graph& graph, std::span<const ValueId> members,
                  std::span<const LoweredKernel> kernels, int64_t free) {
  constexpr int64_t kMostTimes = 2;
  const std::set<OpId> maps = maps_of(graph, members);
  int64_t once = 0;
  for (ValueId v : members)
    if (const OpId id = graph.node(v).op; maps.contains(id)) once += cost(id);
  struct Iteration {
    int64_t work = 0;
    std::map<int, int64_t> stored;  // elements of each buffer
  };
  const auto repeats = [&](const LoweredKernel& k) {
    std::map<const Stmt*, Iteration> loops;
    each_stmt(k.kernel.body, [&](const Stmt& s, const Around& around) {
      if (s.kind == Stmt::Kind::op && maps.count(s.op)) loops[around.loop].work += cost(s.op);
      if (s.kind == Stmt::Kind::store) ++loops[around.loop].stored[s.buffer];
    });
    return std::ranges::any_of(loops, [&](const auto& loop) {
      int64_t places = 1;
      for (const auto& [buffer, count] : loop.second.stored) places = std::max(places, count);
      return loop.second.work > kMostTimes * once * places + free;
    });
  };
  return std::ranges::any_of(kernels, repeats);
}

// Whether a kernel has more folds than the group has reductions: it computes a reduction at several places for one of its results.
bool repeats_folds(const Graph& graph, std::span<const ValueId> members, const LoweredKernel& kernel) {
  const auto reductions =
      std::ranges::count_if(members, [&](ValueId v) { return op(graph.node(v).op).kind == Kind::reduce; });
  size_t folds = 0;
  each_stmt(kernel.kernel.body, [&](const Stmt& s, const Around& around) {
    const bool part = around.loop && around.loop->kind == Stmt::Kind::reduce;  // of a fold
    if (s.kind == Stmt::Kind::reduce && !part) folds += s.results.size();
  });
  return folds > static_cast<size_t>(reductions);
}

// The elements that a kernel computes values from, as sums of loop variables: x[i + k, j] varies along i + k and along j. A set of
// variables with one coefficient is a number with a bit for each.
class Directions {
 public:
  explicit Directions(const Kernel& kernel) : of_(kernel.types.size()) { visit(kernel, kernel.body); }

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
      std::vector<uint64_t> found;
      std::set<Ref> uses;
      collect_uses(s, uses);
      for (Ref r : uses)
        if (s.kind != Stmt::Kind::load || !loops_.contains(r)) append(found, r);
      if (s.kind == Stmt::Kind::load) add_address(kernel, s, found);
      each_result(s, [&](Ref r) { of_[r] = found; });
    }
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
  std::set<Ref> loops_;
  int axes_ = 0;
};

// Whether a loop spends most of its work on maps that are the same at several of its points. A product of a map by a matrix computes the map
// again for each column, and windows that overlap compute it again for each window; loops that store the map compute it once. `folded`: the
// values that only folds read.
bool repeats_maps(const Graph& graph, std::span<const ValueId> members, const LoweredKernel& kernel,
                  const std::set<ValueId>& folded) {
  constexpr int64_t kFew = 2, kStore = 4;  // kStore: the cost of a store
  const std::set<OpId> maps = maps_of(graph, members);
  const Directions directions(kernel.kernel);
  const auto is_long = [&](const Axis& a) {
    if (a.extent.size < 0) return a.extent.factor > kFew;
    const Dim size = kernel.sizes[static_cast<size_t>(a.extent.size)];
    return !size.is_const() || a.extent.factor * size.value() > kFew;
  };
  const auto any_loop = [&](const auto& self, const Stmt& loop, uint64_t variables) -> bool {
    for (const Axis& a : loop.axes)
      if (a.of != kNoRef || is_long(a)) variables |= directions.bit(a);
    const bool lanes = loop.kind == Stmt::Kind::par;
    int64_t repeated = 0, rest = static_cast<int64_t>(loop.yields.size());
    std::set<Ref> read;  // by repeated maps
    for (const Stmt& s : loop.body) {
      if (is_loop(s) && self(self, s, variables)) return true;
      const bool hoisted = lanes && !loop.axes.empty() && s.kind == Stmt::Kind::op &&
                           !directions.varies(s.result, directions.bit(loop.axes.back()));
      if (s.kind == Stmt::Kind::op && !hoisted) {
        const bool repeats = maps.contains(s.op) && directions.repeats(s.result, variables);
        (repeats ? repeated : rest) += cost(s.op);
        if (repeats) read.insert(s.args.begin(), s.args.end());
      }
      if (s.kind == Stmt::Kind::store) {
        const ValueId* v = std::get_if<ValueId>(&kernel.buffers[static_cast<size_t>(s.buffer)]);
        rest += v && folded.contains(*v) ? 1 : kStore;
      }
    }
    // One load of the stored map replaces the loads of its operands.
    const auto loads = std::ranges::count_if(
        loop.body, [&](const Stmt& s) { return s.kind == Stmt::Kind::load && read.contains(s.result); });
    return repeated > 0 && repeated + std::max<int64_t>(loads - 1, 0) >= rest;
  };
  return any_loop(any_loop, kernel.kernel.body[0], 0);
}

}  // namespace

Status covers(const Graph& graph, const Uses& uses, std::span<const ValueId> members, Target target) {
  constexpr size_t kMostStreams = 24;
  constexpr size_t kMostWalked = 1024;  // lowering recurses into operands
  if (members.size() > kMaxGroupNodes) return unsupported("the group is full");
  const std::vector<ValueId> outputs = outputs_of(graph, uses, members);
  size_t walked = 0;
  const size_t streams = outputs.size() + inputs_of(graph, members, &walked).size();
  // A concatenation has a kernel for each of its operands, with the streams of this operand. A single node has no alternative.
  const bool pieces =
      std::ranges::any_of(members, [&](ValueId v) { return graph.node(v).op == ops::concat; });
  const auto too_many = [&](size_t count) { return members.size() > 1 && count > kMostStreams; };
  if (!pieces && too_many(streams)) return unsupported("more than 24 streams");
  if (members.size() > 1 && walked > kMostWalked) return unsupported("more than 1024 nodes and views");
  for (ValueId v : members) {
    const Node& n = graph.node(v);
    if (target == Target::gpu && op(n.op).kind == Kind::map && !n.inputs.empty() &&
        calls_host(op(n.op), graph.type(n.inputs.back()).dtype))
      return unsupported(std::string(op(n.op).name) + " is computed by the host");
  }
  auto strides = [&](ValueId v) -> std::optional<Dims> {
    const bool member = std::binary_search(members.begin(), members.end(), v);
    if (!member && is_inlined(graph, v)) return std::nullopt;
    return stored_strides(graph, v);
  };
  TENON_ASSIGN(const auto kernels, make_kernels({graph, members, outputs, strides, target}, /*trial=*/true));
  const auto is_value = [](const BufferId& b) { return std::holds_alternative<ValueId>(b); };
  for (const LoweredKernel& k : kernels)
    if (pieces && too_many(static_cast<size_t>(std::ranges::count_if(k.buffers, is_value))))
      return unsupported("more than 24 streams");
  if (target == Target::cpu && members.size() > 1 && repeats_work(graph, members, kernels, pieces ? 0 : 8))
    return unsupported("its loops would compute the same values at many places");
  if (target == Target::cpu && members.size() > 1) {
    const auto folds = [&](ValueId user) { return op(graph.node(user).op).kind == Kind::reduce; };
    std::set<ValueId> folded;
    for (ValueId v : outputs)
      if (!uses.is_output(v) && std::ranges::all_of(uses.users(v), folds)) folded.insert(v);
    if (std::ranges::any_of(kernels, [&](const LoweredKernel& k) {
          return repeats_folds(graph, members, k) || repeats_maps(graph, members, k, folded);
        }))
      return unsupported("its loops would compute the same values again");
  }
  return {};
}

Status may_join(const Graph& graph, const Uses& uses, std::span<const ValueId> members, ValueId v,
                Target target) {
  TENON_TRY(has_loops(graph, v));
  std::vector<ValueId> all(members.begin(), members.end());
  all.insert(std::lower_bound(all.begin(), all.end(), v), v);
  return covers(graph, uses, all, target);
}

std::vector<std::vector<int>> positions(std::span<const LoweredKernel> kernels,
                                        std::span<const ValueId> inputs, std::span<const ValueId> outputs) {
  auto position = [&](BufferId b) {
    if (std::holds_alternative<TempId>(b)) return -1;
    const ValueId v = std::get<ValueId>(b);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] == v) return static_cast<int>(i);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] == v) return static_cast<int>(inputs.size() + i);
    TENON_CHECK(false, "a kernel reads a value its group does not list");
    return -1;
  };
  std::vector<std::vector<int>> result;
  for (const LoweredKernel& k : kernels) {
    std::vector<int>& list = result.emplace_back();
    for (BufferId b : k.buffers) list.push_back(position(b));
  }
  return result;
}

namespace {

struct Accesses {
  const Stmt* first = nullptr;
  const Stmt* loop = nullptr;  // around the first access
  int count = 0;
};

Accesses accesses_of(const Kernel& kernel, int buffer) {
  Accesses found;
  each_stmt(kernel.body, [&](const Stmt& s, const Around& around) {
    if (is_access(s) && s.buffer == buffer && found.count++ == 0) found.first = &s, found.loop = around.loop;
  });
  return found;
}

// Whether each element of `in` is read once, in the same iteration and at the same address as the only write
// of `out`, before this write.
bool reads_then_writes(const Kernel& kernel, int in, int out) {
  const Accesses read = accesses_of(kernel, in), write = accesses_of(kernel, out);
  return read.count == 1 && write.count == 1 && read.loop == write.loop && read.first < write.first &&
         size_of(kernel.buffers[in].type) == size_of(kernel.buffers[out].type) &&
         read.first->address == write.first->address;
}

bool is_copy(const Kernel& kernel) {
  if (kernel.buffers.size() != 2 || kernel.buffers[0].type != kernel.buffers[1].type ||
      kernel.buffers[0].role != Buffer::Role::in || !reads_then_writes(kernel, 0, 1))
    return false;
  return accesses_of(kernel, 1).first->args[0] == accesses_of(kernel, 0).first->result;
}

// Whether, in a group with several outputs, one kernel uses both values and reads each element right before
// it writes it.
bool dies_into(std::span<const LoweredKernel> kernels, ValueId in, ValueId out) {
  auto uses_any = [&](const LoweredKernel& k) { return k.uses(in) || k.uses(out); };
  const auto only = std::ranges::find_if(kernels, uses_any);
  if (std::ranges::count_if(kernels, uses_any) != 1 || !only->uses(in) || !only->uses(out)) return false;
  auto number = [&](ValueId v) {
    return static_cast<int>(std::ranges::find(only->buffers, BufferId(v)) - only->buffers.begin());
  };
  return reads_then_writes(only->kernel, number(in), number(out));
}

}  // namespace

std::vector<std::pair<int, int>> inplace(std::span<const LoweredKernel> kernels,
                                         std::span<const ValueId> inputs, std::span<const ValueId> outputs) {
  std::vector<std::pair<int, int>> pairs;
  if (outputs.size() > 1) {
    for (size_t o = 0; o < outputs.size(); ++o)
      for (size_t i = 0; i < inputs.size(); ++i)
        if (dies_into(kernels, inputs[i], outputs[o]))
          pairs.push_back({static_cast<int>(o), static_cast<int>(i)});
    return pairs;
  }
  if (outputs.empty()) return pairs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool safe = std::ranges::all_of(kernels, [&](const LoweredKernel& k) {
      return !k.uses(inputs[i]) || std::ranges::count(k.inplace, inputs[i]);
    });
    if (safe) pairs.push_back({0, static_cast<int>(i)});
  }
  return pairs;
}

Arguments arguments(const LoweredKernel& kernel, std::span<const int> positions,
                    FunctionRef<int64_t(Dim)> eval) {
  Arguments all;
  std::vector<int64_t> offsets;
  for (const Temp& t : kernel.temps) {
    offsets.push_back(all.temps);
    all.temps += align_up(eval(t.length) * size_of(t.type));
  }
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const bool writes = kernel.kernel.buffers[b].role == Buffer::Role::out;
    const auto* temp = std::get_if<TempId>(&kernel.buffers[b]);
    if (!temp) {
      all.list.push_back({positions[b], 0, 0, writes});
      continue;
    }
    const auto t = static_cast<size_t>(*temp);
    all.list.push_back(
        {-1, offsets[t], eval(kernel.temps[t].length) * size_of(kernel.temps[t].type), writes});
  }
  all.writes_again = kernel.writes_again;
  all.copies = is_copy(kernel.kernel);
  return all;
}

std::vector<RowLength> unknown_rows(std::span<const LoweredKernel> kernels) {
  std::vector<RowLength> rows;
  for (const LoweredKernel& k : kernels) {
    const auto is_fold = [](const Stmt& s) { return s.kind == Stmt::Kind::reduce; };
    const auto kind = find_stmt(k.kernel.body, is_fold) ? Stmt::Kind::reduce : Stmt::Kind::loop;
    std::map<Ref, Extent> extents;  // by the variable of an axis
    each_stmt(k.kernel.body, [&](const Stmt& s) {
      for (const Axis& a : s.axes) extents[a.var] = a.of == kNoRef ? a.extent : extents[a.of];
      if (!s.simd || s.kind != kind) return;
      const Extent& e = extents[s.axes.back().var];
      if (e.size >= 0 && !k.sizes[e.size].is_const())
        rows.push_back({e.factor, k.sizes[e.size], k.narrow_below});
    });
  }
  return rows;
}

std::string print(std::span<const LoweredKernel> kernels) {
  std::string text;
  for (const LoweredKernel& k : kernels) text += print(k.kernel);
  return text;
}

}  // namespace tenon::jit
