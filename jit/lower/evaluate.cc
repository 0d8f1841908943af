// See kernel_draft.h. Walks from results to operands and rewrites indices on the way. Values that depend on
// par axes only are computed before the inner loops. A reduction opens its own loop when its result is first
// needed.
#include <algorithm>
#include <map>
#include <set>

#include "jit/lower/draft_builder.h"
#include "jit/lower/rematerialization.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"

namespace tenon::jit {
namespace {

class Lowering final : public DraftBuilder {
 public:
  Lowering(const LowerInput& in, const std::vector<DomainDim>& domain, std::vector<LoopAxis> axes)
      : DraftBuilder(in, std::move(axes)), domain_(domain), kept_rows_(in, axes_) {
    for (ValueId v : in.members) member_.insert(v);
    for (ValueId v : in.members)
      if (kind(v) == Kind::reduce && !in_.is_sum(v))
        reduces_.push_back(v);
      else if (kind(v) == Kind::scan)
        has_scan_ = true;
    if (std::ranges::any_of(in.members, [&](ValueId v) { return widens(graph().node(v)); }))
      for (ValueId v : in.members)
        if (is_step_function(graph().node(v)))
          for (ValueId o : graph().node(v).inputs) find_widened(o);
  }

  // ---- Evaluator: the interface of index_maps.cc ----
  // If division is not allowed, fusion stores the reshape with the shape of its operand. On the CPU this
  // costs less than divisions.
  bool may_divide() const override {
    if (in_.members.size() > 1) return false;
    const Node& only = graph().node(in_.members[0]);
    const bool dense = in_.strides(in_.members[0]) == dense_strides(dims(), only.type.shape);
    return in_.target == Target::gpu || (only.op == ops::reshape && !dense);
  }
  bool may_split(uint32_t axis) const override { return !has_scan_ || !axes_[axis].inner; }
  std::optional<Ref> load_dense(ValueId v, const Index& position) override {
    if (member_.count(v)) return {};
    const auto strides = in_.strides(v);
    const TensorType& type = graph().type(v);
    if (!strides || *strides != dense_strides(dims(), type.shape)) return {};
    return load_tensor(v, position);
  }
  Ref eval(ValueId v, const Indices& at) override {
    if (failed()) return 0;
    auto key = std::pair(v, at);
    for (Scope* s : {scopes_.empty() ? nullptr : &scopes_.back(), &par_})
      if (s)
        if (auto hit = s->memo.find(key); hit != s->memo.end()) return hit->second;
    // A local that an open loop stores is not complete yet in the loops that run before it.
    if (auto it = kept_.find(key); it != kept_.end() && !scopes_.empty() && !is_open(it->second.scope))
      return remember(key, load(it->second.local, it->second.type, inner_linear()));
    Ref r = eval_new(v, at);
    if (failed()) return 0;
    if (keep_rows_ && depth_[r] == 1 && kept_rows_.keeps(v)) keep(key, r);
    return remember(key, r);
  }

  // ---- the group ----
  Attempt run() {
    const bool has_reduce = !reduces_.empty();
    build();
    if (request_) return {request_, {}};
    Schedule s = plan();
    // A simd par has no locals, so these rows are computed again instead.
    if (s.simd_par && has_reduce && !kept_.empty()) {
      keep_rows_ = false;
      build();
      if (request_) return {request_, {}};
      s = plan();
    }
    // In nested maps, either the axis of lanes becomes an inner loop, or the narrow loops within it do.
    if (!has_reduce && !has_scan_ && s.classes.size() > 1) {
      bool around = false;
      for (int c = s.par.back() + 1; c < static_cast<int>(s.classes.size()); ++c) {
        if (!is_narrow(merged_extent(dims(), axes_, s.classes[c]))) continue;
        for (uint32_t a : s.classes[c]) axes_[a].inner = around = true;
      }
      if (!around)
        for (uint32_t a : s.classes[s.par.back()]) axes_[a].inner = true;
      build();
      if (request_) return {request_, {}};
      s = plan();
    }
    draft_.body = std::move(par_.block);
    return {{}, bind_loops(in_, axes_, s, std::move(draft_))};
  }

 private:
  // A value in a local, with an element for each point of the inner axes.
  struct Kept {
    DraftBuffer local;
    DType type;
    int scope;  // number of the scope that stores it
  };

  Kind kind(ValueId v) const { return op(graph().node(v).op).kind; }

  Ref remember(const Key& key, Ref r) {
    (depth_[r] == 0 || scopes_.empty() ? par_ : scopes_.back()).memo.emplace(key, r);
    return r;
  }

  Ref moved(const Node& n, const Indices& at) {
    const Ref r = find_move(n.op)(*this, n, at);
    if (n.op == ops::full) stored_[r] = r;
    return r;
  }
  Ref eval_new(ValueId v, const Indices& at) {
    const Node& n = graph().node(v);
    const Op& row = op(n.op);
    if (!member_.count(v)) {
      if (auto strides = in_.strides(v)) {
        // Emits the load inside the loops whose axes index the tensor, even with stride 0: these loops may be
        // empty, and the tensor too.
        int depth = 0;
        for (const Index& i : at) depth = std::max(depth, depth_of(i));
        return load_tensor(v, index_.linear(at, *strides), depth);
      }
      if (row.kind == Kind::input)
        if (find_move(n.op)) return moved(n, at);  // full, iota, dim
      if (!row.view) {
        return decline(graph().value_name(v) + " is not available to this group");
      }
    }
    if (find_move(n.op)) return moved(n, at);
    if (row.kind == Kind::map) {
      std::vector<Ref> args;
      for (ValueId o : n.inputs) args.push_back(eval(o, broadcast(at, graph().type(o).shape, n.type.shape)));
      if (failed()) return 0;
      if (is_step_function(n) || (n.op == ops::cast && widened_.count(v)))
        for (size_t i = 0; i < args.size(); ++i) args[i] = as_stored(n.inputs[i], args[i]);
      if (n.op == ops::cast) {
        const DType to = n.type.dtype;
        const bool narrows =
            is_narrow(to) && graph().type(n.inputs[0]).dtype != to && attr_as<bool>(n, "rounds");
        return narrows ? round_to(args[0], to) : cast_to(args[0], compute_type(to));
      }
      if (n.op == ops::bitcast && graph().type(n.inputs[0]).dtype == n.type.dtype) return args[0];
      if (n.op == ops::bitcast)
        return emit({{.kind = Stmt::Kind::bitcast, .args = args}}, compute_type(n.type.dtype));
      return checked_op(n, n.op, std::move(args), compute_type(n.type.dtype));
    }
    if (row.kind == Kind::reduce) return reduce(v, at);
    if (row.kind == Kind::scan) return scan(v, at);
    return decline(std::string(row.name) + " has no loops of its own");
  }

  // ---- reductions ----
  std::vector<bool> reduced_dims(const Node& n) const {
    return *axis_flags(attr_ints(n, "axes"), graph().type(n.inputs[0]).rank());
  }

  // Indices of the reduction's operand: result indices for kept axes, the inner axes for folded axes.
  bool operand_index(ValueId v, const Indices& at, Indices* out) {
    const Node& n = graph().node(v);
    const Dims& shape = graph().type(n.inputs[0]).shape;
    std::vector<bool> reduced = reduced_dims(n);
    const bool keep = attr_as<bool>(n, "keepdims");
    const auto [inner_extents, inner_at] = inner_axes();
    Dims folded;
    for (size_t d = 0; d < shape.size(); ++d)
      if (reduced[d]) folded.push_back(shape[d]);
    Indices folded_at;
    Request why;
    if (!index_.reshape(inner_extents, inner_at, folded, &folded_at, &why)) {
      if (why.kind == Request::Kind::decline) why.why = "two reductions fold different axes";
      fail(why);
      return false;
    }
    out->clear();
    size_t k = 0, f = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (reduced[d]) {
        out->push_back(folded_at[f++]);
        if (keep) ++k;
      } else {
        out->push_back(at[k++]);
      }
    }
    return true;
  }

  // Whether the result is not a continuous function of its operands.
  static bool is_step_function(const Node& n) { return op(n.op).jumps || !is_float(n.type.dtype); }

  // Whether the node is a cast from a 16-bit float.
  bool widens(const Node& n) const { return n.op == ops::cast && is_narrow(graph().type(n.inputs[0]).dtype); }

  // Collects the casts from 16-bit floats that the f32 or f64 value `v` is computed from in this group.
  void find_widened(ValueId v) {
    const Node& n = graph().node(v);
    if (!is_float(n.type.dtype) || is_narrow(n.type.dtype) || (!member_.count(v) && in_.strides(v)) ||
        !walked_.insert(v).second)
      return;
    if (widens(n))
      widened_.insert(v);
    else
      for (ValueId o : n.inputs) find_widened(o);
  }

  bool depends_on(ValueId v, ValueId target) const {
    return reaches(graph(), v, target, [](ValueId) { return true; });
  }

  Ref reduce(ValueId v, const Indices& at) {
    for (const Index& i : at)
      if (depth_of(i) > 0)
        return decline(graph().value_name(v) + " is read along the axes that reductions fold");
    // Independent reductions of the same shape share the loop.
    std::vector<ValueId> together{v};
    const Node& n = graph().node(v);
    for (ValueId r : reduces_) {
      const Node& m = graph().node(r);
      if (r == v || par_.memo.count({r, at}) || m.type.shape != n.type.shape ||
          reduced_dims(m) != reduced_dims(n) ||
          graph().type(m.inputs[0]).shape != graph().type(n.inputs[0]).shape)
        continue;
      bool independent = true;
      for (ValueId t : together) independent = independent && !depends_on(r, t) && !depends_on(t, r);
      for (ValueId other : reduces_)  // r depends only on complete reductions
        independent = independent && (other == r || !depends_on(r, other) || par_.memo.count({other, at}));
      if (independent) together.push_back(r);
    }
    DraftStmt loop{{.kind = Stmt::Kind::reduce}};
    open_loop();
    for (ValueId r : together) {
      Indices operand;
      if (!operand_index(r, at, &operand)) return 0;
      const Node& m = graph().node(r);
      const DType acc = compute_type(m.type.dtype);
      Ref y = eval(m.inputs[0], operand);
      if (failed()) return 0;
      if (draft_.types[y] != acc) y = cast_to(as_stored(m.inputs[0], y), acc);
      loop.stmt.combine.push_back(*find_op(op(m.op).combine));
      loop.stmt.yields.push_back(y);
    }
    close_loop(loop);
    loop.stmt.unroll = reduce_unroll(loop.body.size());
    for (ValueId r : together) {
      loop.stmt.results.push_back(new_ref(compute_type(graph().node(r).type.dtype), 0));
      par_.memo.emplace(Key{r, at}, loop.stmt.results.back());
    }
    const Ref result = loop.stmt.results[0];
    par_.block.push_back(std::move(loop));
    return result;
  }

  Ref scan(ValueId v, const Indices& at) {
    const Node& n = graph().node(v);
    int64_t axis = attr_int(n, "axis");
    const int rank = n.type.rank();
    if (rank == 0) return eval(n.inputs[0], at);
    if (axis < 0) axis += rank;
    const Index& along = at[axis];
    const Dim length = n.type.shape[axis];
    const bool whole = along.terms.size() == 1 && !along.terms[0].dynamic && axes_[along.terms[0].id].inner &&
                       along.terms[0].coef == Dim(1) && axes_[along.terms[0].id].extent == length;
    bool in_order = along.offset == Dim(0) && (whole || (along.terms.empty() && length == Dim(1)));
    for (int64_t d = 0; d < rank; ++d) in_order = in_order && (d == axis || depth_of(at[d]) == 0);
    if (scopes_.empty() || !in_order) return decline(graph().value_name(v) + " is not read in scan order");
    Ref x = eval(n.inputs[0], at);
    if (failed()) return 0;
    x = cast_to(x, compute_type(n.type.dtype));
    return emit({{.kind = Stmt::Kind::scan, .op = *find_op(op(n.op).combine), .args = {x}}},
                compute_type(n.type.dtype), 1);
  }

  // ---- values kept between the loops of a row ----
  std::pair<Dims, Indices> inner_axes() const {
    Dims extents;
    Indices at;
    for (uint32_t a = 0; a < axes_.size(); ++a)
      if (axes_[a].inner) extents.push_back(axes_[a].extent), at.push_back(index_.axis(a));
    return {extents, at};
  }
  Index inner_linear() const {
    const auto [extents, at] = inner_axes();
    return index_.linear(at, dense_strides(dims(), extents));
  }
  bool is_open(int scope) const {
    return std::ranges::any_of(scopes_, [&](const Scope& s) { return s.number == scope; });
  }
  void keep(const Key& key, Ref value) {
    const DType type = draft_.types[value];
    const Kept kept{new_local(type), type, scopes_.empty() ? 0 : scopes_.back().number};
    kept_[key] = kept;
    store(kept.local, inner_linear(), value);
  }

  // ---- sums over the par axes ----
  bool is_output_of_sum(ValueId o) const {
    return std::ranges::any_of(in_.sums, [&](const LowerInput::Sum& s) { return s.output == o; });
  }
  // Adds the element of the current row to the sum over the rows before it.
  void add_up(const LowerInput::Sum& sum) {
    const Node& n = graph().node(sum.fold);
    const DType type = compute_type(n.type.dtype);
    const OpId fold = *find_op(op(n.op).combine);
    Indices at;
    if (!output_index(n.inputs[0], true, &at)) return;
    const Ref y = eval(n.inputs[0], at);
    if (failed()) return;
    const DraftBuffer local = new_local(type);
    const Ref old = load(local, type, inner_linear());
    store(local, inner_linear(), scalar_op(fold, {old, cast_to(y, type)}, type));
    draft_.sums.push_back({sum.output, local.number, fold});
  }

  // A full output has an element for every point of the domain, a reduced output one for every point of the
  // par axes.
  bool is_full(ValueId o) {
    if (reduces_.empty()) return true;
    Dims whole;
    for (const DomainDim& d : domain_) whole.push_back(d.extent);
    return dims().product(graph().type(o).shape) == dims().product(whole);
  }

  void build() {
    reset();
    kept_.clear();
    // Reductions come first, so that no loop is open when one starts, and the first loop that computes a row
    // keeps it.
    for (ValueId r : reduces_) {
      Indices at;
      if (!output_index(r, false, &at)) return;
      eval(r, at);
      if (failed()) return;
    }
    std::vector<ValueId> full, reduced;
    for (ValueId o : in_.outputs)
      if (!is_output_of_sum(o)) (is_full(o) ? full : reduced).push_back(o);
    auto store_all = [&](const std::vector<ValueId>& outputs, bool inner_too) {
      std::vector<std::pair<Index, Ref>> done;
      for (ValueId output : outputs) {
        const auto [o, strides] = in_.written(output);
        Indices at;
        if (!output_index(o, inner_too, &at)) return;
        // A store itself rounds to the dtype of the buffer.
        const bool casts =
            graph().node(o).op == ops::cast && compute_type(graph().type(o).dtype) == DType::f32;
        Ref r = eval(casts ? graph().node(o).inputs[0] : o, at);
        if (failed()) return;
        if (casts) r = cast_to(r, DType::f32);
        done.emplace_back(index_.linear(at, strides), r);
      }
      for (size_t i = 0; i < outputs.size(); ++i) store(argument(outputs[i]), done[i].first, done[i].second);
    };
    const bool loops = std::any_of(axes_.begin(), axes_.end(), [](const LoopAxis& a) { return a.inner; });
    if (!full.empty() || !in_.sums.empty()) {
      if (loops) open_loop();
      store_all(full, true);
      for (const LowerInput::Sum& sum : in_.sums)
        if (!failed()) add_up(sum);
      if (failed()) return;
      if (loops) {
        DraftStmt loop{{.kind = Stmt::Kind::loop}};
        close_loop(loop);
        par_.block.push_back(std::move(loop));
      }
    }
    store_all(reduced, false);
  }

  // Matches the shape of `o` with the shape of the domain. A cut axis adds the start of its segment.
  bool output_index(ValueId o, bool full, Indices* at) {
    Dims extents;
    Indices here;
    for (uint32_t d = 0; d < domain_.size(); ++d) {
      if (!full && domain_[d].folded) continue;
      extents.push_back(domain_[d].extent);
      Index sum;
      for (uint32_t a = 0; a < axes_.size(); ++a)
        if (axes_[a].dim == d) sum = index_.add(sum, index_.scale(index_.axis(a), axes_[a].weight));
      here.push_back(std::move(sum));
    }
    Request why;
    if (!index_.reshape(extents, here, graph().type(o).shape, at, &why)) {
      if (why.kind == Request::Kind::decline)
        why.why = graph().value_name(o) + " has another shape than the group's loops";
      fail(why);
      return false;
    }
    return true;
  }

  Schedule plan() {
    std::vector<bool> fixed(axes_.size(), false);
    for (uint32_t a : fixed_) fixed[a] = true;
    int folds = 0;  // a fold that compares takes as long as two sums
    if (in_.target == Target::cpu)
      for (ValueId r : reduces_) {
        const OpId op = graph().node(r).op;
        folds += op == ops::sum || op == ops::prod ? 1 : 2;
      }
    const bool unrolls = in_.target == Target::cpu && reduces_.empty();
    return schedule(dims(), axes_, draft_.accesses, fixed, has_scan_, folds, in_.short_rows, unrolls);
  }

  const std::vector<DomainDim>& domain_;
  std::set<ValueId> member_;
  std::vector<ValueId> reduces_;
  // Casts from 16-bit floats that step functions depend on; their operands are rounded. walked_: what find_widened() has seen.
  std::set<ValueId> widened_, walked_;
  bool has_scan_ = false;
  bool keep_rows_ = true;
  std::map<Key, Kept> kept_;
  Rematerialization kept_rows_;
};

}  // namespace

Attempt lower_axes(const LowerInput& in, const std::vector<DomainDim>& domain, std::vector<LoopAxis> axes) {
  return Lowering(in, domain, std::move(axes)).run();
}

}  // namespace tenon::jit
