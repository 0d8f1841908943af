// See kernel_draft.h. Gives loops the axes that the schedule merged, addresses their terms, and buffers their
// positions in the argument list.
#include <algorithm>
#include <map>

#include "jit/lower/kernel_draft.h"

namespace tenon::jit {
namespace {

class LoopBinder {
 public:
  LoopBinder(const LowerInput& in, const std::vector<LoopAxis>& axes, const Schedule& schedule,
             KernelDraft draft)
      : in_(in), axes_(axes), schedule_(schedule), draft_(std::move(draft)) {}

  LoweredKernel run() {
    const Schedule& s = schedule_;
    class_of_.assign(axes_.size(), -1);
    for (int c = 0; c < static_cast<int>(s.classes.size()); ++c)
      for (uint32_t a : s.classes[c]) class_of_[a] = c;
    kernel_.types = draft_.types;
    kernel_.names.resize(kernel_.types.size());
    std::vector<Axis> par_axes;
    std::map<int, Ref> vars;
    for (int c : s.par) par_axes.push_back(loop_axis(c, vars, "i"));
    if (par_axes.empty()) par_axes.push_back({named_ref("i"), Extent{1, -1}});
    Stmt par{.kind = Stmt::Kind::par, .axes = std::move(par_axes), .simd = s.simd_par};
    par.body = bind(std::move(draft_.body), vars);
    // Arguments first, then locals.
    for (size_t b = 0; b < draft_.arguments.size(); ++b) {
      const ValueId v = draft_.arguments[b];
      const bool out = std::ranges::count(in_.outputs, v) > 0;
      kernel_.buffers.push_back({out ? Buffer::Role::out : Buffer::Role::in,
                                 in_.graph.type(v).dtype,
                                 (out ? "y" : "x") + std::to_string(b),
                                 {}});
    }
    for (size_t l = 0; l < draft_.locals.size(); ++l)
      kernel_.buffers.push_back({Buffer::Role::local, draft_.locals[l].type, "t" + std::to_string(l),
                                 extent_of(draft_.locals[l].length)});
    kernel_.body.push_back(std::move(par));
    kernel_.name = kernel_name();
    LoweredKernel out;
    out.inplace = inplace_inputs();
    for (const KernelDraft::Sum& sum : draft_.sums)
      out.sums.push_back({sum.value, position({DraftBuffer::Kind::local, sum.local}), sum.fold});
    out.kernel = std::move(kernel_);
    out.sizes = draft_.sizes;
    out.name_sizes();
    out.buffers.assign(draft_.arguments.begin(), draft_.arguments.end());
    out.faults = draft_.faults;
    out.narrow_below = schedule_.narrow_below;
    return out;
  }

 private:
  Extent extent_of(Dim d) {
    if (d == Dim(1)) return {1, -1};
    return {1, number_in(draft_.sizes, d)};
  }
  Ref named_ref(const char* prefix) {
    return kernel_.add_ref(DType::i64, prefix + std::to_string(var_count_++));
  }
  Axis loop_axis(int c, std::map<int, Ref>& vars, const char* prefix) {
    vars[c] = named_ref(prefix);
    return {vars[c], extent_of(merged_extent(*in_.graph.dims, axes_, schedule_.classes[c]))};
  }

  // The position in the list of the kernel: arguments, then locals.
  int position(const DraftBuffer& b) const {
    return b.kind == DraftBuffer::Kind::argument ? b.number
                                                 : static_cast<int>(draft_.arguments.size()) + b.number;
  }

  Block bind(DraftBlock block, const std::map<int, Ref>& vars) {
    Block out;
    for (DraftStmt& draft : block) {
      Stmt s = std::move(draft.stmt);
      switch (s.kind) {
        case Stmt::Kind::load:
        case Stmt::Kind::store:
          s.buffer = position(draft.buffer);
          s.address = address_of(draft.address, vars);
          if (draft.buffer.kind == DraftBuffer::Kind::argument)
            (s.kind == Stmt::Kind::load ? loads_[s.buffer] : stores_).push_back(std::move(draft.address));
          break;
        case Stmt::Kind::index: s.args = {vars.at(class_of_[draft.axis])}; break;
        case Stmt::Kind::loop:
        case Stmt::Kind::reduce: {
          std::map<int, Ref> here = vars;
          for (int c : schedule_.inner) s.axes.push_back(loop_axis(c, here, "j"));
          if (s.axes.empty()) s.axes.push_back({named_ref("j"), Extent{1, -1}});
          s.simd = schedule_.simd_inner && !schedule_.inner.empty();
          if (!s.simd) s.unroll = 1;
          s.body = bind(std::move(draft.body), here);
          break;
        }
        default: break;
      }
      out.push_back(std::move(s));
    }
    return out;
  }

  Address address_of(const Index& at, const std::map<int, Ref>& vars) {
    Address address;
    auto push = [&](Dim coef, Ref var) {
      if (coef == Dim(0)) return;
      Term t{1, -1, var};
      // Small factors stay in the text, because they decide how memory is read; sizes become arguments.
      if (coef.is_const() && coef.value() < kNarrow)
        t.factor = coef.value();
      else
        t.size = number_in(draft_.sizes, coef);
      address.push_back(t);
    };
    for (const IndexTerm& t : at.terms) {
      if (t.dynamic)
        push(t.coef, t.id);
      else if (schedule_.classes[class_of_[t.id]].back() == t.id)
        push(t.coef, vars.at(class_of_[t.id]));
    }
    push(at.offset, kNoRef);
    return address;
  }

  std::string kernel_name() const {
    std::string name;
    std::string_view last;
    int skipped = 0;
    for (ValueId v : in_.members) {
      const Op& row = op(in_.graph.node(v).op);
      if (row.view || row.kind == Kind::input || row.name == last) continue;
      if (name.size() > 40) {
        ++skipped;
        continue;
      }
      name += (name.empty() ? "" : "_") + std::string(row.name);
      last = row.name;
    }
    if (skipped) name += "_and_" + std::to_string(skipped);
    return (name.empty() ? "copy" : name) + "_" +
           std::string(tenon::name(in_.graph.type(in_.outputs[0]).dtype));
  }

  // Inputs that are read only at the address of the only store of the only output, in the loop that stores or
  // before it.
  std::vector<ValueId> inplace_inputs() const {
    std::vector<ValueId> result;
    if (in_.outputs.size() != 1) return result;
    const ValueId o = in_.outputs[0];
    for (const auto& [argument, list] : loads_) {
      const ValueId v = draft_.arguments[argument];
      if (v == o || size_of(in_.graph.type(v).dtype) != size_of(in_.graph.type(o).dtype)) continue;
      if (stores_.size() == 1 &&
          std::all_of(list.begin(), list.end(), [&](const Index& i) { return i == stores_[0]; }))
        result.push_back(v);
    }
    return result;
  }

  const LowerInput& in_;
  const std::vector<LoopAxis>& axes_;
  const Schedule& schedule_;
  KernelDraft draft_;
  Kernel kernel_;
  std::vector<int> class_of_;                // per axis
  std::map<int, std::vector<Index>> loads_;  // per argument
  std::vector<Index> stores_;                // to arguments
  int var_count_ = 0;
};

}  // namespace

LoweredKernel bind_loops(const LowerInput& in, const std::vector<LoopAxis>& axes, const Schedule& schedule,
                         KernelDraft draft) {
  return LoopBinder(in, axes, schedule, std::move(draft)).run();
}

}  // namespace tenon::jit
