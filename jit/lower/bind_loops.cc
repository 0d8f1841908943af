// See kernel_draft.h. Gives loops the axes that the schedule merged, addresses their terms, and buffers their
// positions in the argument list.
#include <algorithm>
#include <set>

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
    LoweredKernel out;
    std::vector<Axis> par_axes;
    std::map<int, Ref> vars;
    for (int c : s.par) par_axes.push_back(loop_axis(c, vars, "i"));
    if (par_axes.empty()) par_axes.push_back({named_ref("i"), Extent{1, -1}});
    Stmt par{.kind = Stmt::Kind::par, .axes = std::move(par_axes), .simd = s.simd_par};
    par.body = finish_block(std::move(draft_.body), vars);
    std::set<ValueId> outs(in_.outputs.begin(), in_.outputs.end());
    // Arguments first, then locals.
    for (size_t b = 0; b < draft_.buffers.size(); ++b) {
      const ValueId v = draft_.buffers[b];
      Buffer buffer{outs.count(v) ? Buffer::Role::out : Buffer::Role::in, in_.graph.type(v).dtype, {}, {}};
      buffer.name = (outs.count(v) ? "y" : "x") + std::to_string(b);
      draft_.kernel.buffers.push_back(std::move(buffer));
    }
    for (size_t l = 0; l < draft_.locals.size(); ++l)
      draft_.kernel.buffers.push_back({Buffer::Role::local, draft_.locals[l].type, "t" + std::to_string(l),
                                       extent_of(draft_.locals[l].length)});
    draft_.kernel.body.push_back(std::move(par));
    for (size_t i = 0; i < draft_.sizes.size(); ++i) draft_.kernel.sizes.push_back("s" + std::to_string(i));
    draft_.kernel.name = kernel_name();
    out.inplace = inplace_inputs();
    for (LoweredKernel::Sum s : draft_.sums) {
      s.buffer += static_cast<int>(draft_.buffers.size()) - kLocalBase;
      out.sums.push_back(s);
    }
    out.kernel = std::move(draft_.kernel);
    out.sizes = draft_.sizes;
    out.buffers = draft_.buffers;
    out.faults = draft_.faults;
    return out;
  }

 private:
  Extent extent_of(Dim d) {
    if (d == Dim(1)) return {1, -1};
    return {1, draft_.size_number(d)};
  }
  Ref named_ref(const char* prefix) {
    return draft_.kernel.add_ref(DType::i64, prefix + std::to_string(var_count_++));
  }
  Axis loop_axis(int c, std::map<int, Ref>& vars, const char* prefix) {
    vars[c] = named_ref(prefix);
    return {vars[c], extent_of(merged_extent(*in_.graph.dims, axes_, schedule_.classes[c]))};
  }

  Block finish_block(Block block, std::map<int, Ref> vars) {
    Block out;
    for (Stmt& s : block) {
      switch (s.kind) {
        case Stmt::Kind::load: s.args.clear(); [[fallthrough]];
        case Stmt::Kind::store:
          s.address = address_of(draft_.accesses[s.size].address, vars);
          s.size = -1;
          if (s.buffer >= kLocalBase)
            s.buffer = s.buffer - kLocalBase + static_cast<int>(draft_.buffers.size());
          break;
        case Stmt::Kind::index: {
          const int axis = s.size;
          s.size = -1;
          s.args = {vars.at(class_of_[axis])};
          break;
        }
        case Stmt::Kind::loop:
        case Stmt::Kind::reduce: {
          std::map<int, Ref> here = vars;
          for (int c : schedule_.inner) s.axes.push_back(loop_axis(c, here, "j"));
          if (s.axes.empty()) s.axes.push_back({named_ref("j"), Extent{1, -1}});
          s.simd = schedule_.simd_inner && !schedule_.inner.empty();
          if (!s.simd) s.unroll = 1;
          s.body = finish_block(std::move(s.body), here);
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
        t.size = draft_.size_number(coef);
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
    for (const auto& [buffer, list] : draft_.loads) {
      if (buffer >= kLocalBase || draft_.buffers[buffer] == o) continue;
      const ValueId v = draft_.buffers[buffer];
      if (size_of(in_.graph.type(v).dtype) != size_of(in_.graph.type(o).dtype)) continue;
      if (draft_.stores.size() == 1 &&
          std::all_of(list.begin(), list.end(), [&](const Index& i) { return i == draft_.stores[0]; }))
        result.push_back(v);
    }
    return result;
  }

  const LowerInput& in_;
  const std::vector<LoopAxis>& axes_;
  const Schedule& schedule_;
  KernelDraft draft_;
  std::vector<int> class_of_;  // per axis
  int var_count_ = 0;
};

}  // namespace

int KernelDraft::size_number(Dim d) {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == d) return static_cast<int>(i);
  sizes.push_back(d);
  return static_cast<int>(sizes.size() - 1);
}

int KernelDraft::fault_number(ValueId node) {
  auto found = std::ranges::find(faults, node);
  if (found == faults.end()) found = faults.insert(found, node);
  return static_cast<int>(found - faults.begin()) + 1;
}

LoweredKernel bind_loops(const LowerInput& in, const std::vector<LoopAxis>& axes, const Schedule& schedule,
                         KernelDraft draft) {
  return LoopBinder(in, axes, schedule, std::move(draft)).run();
}

}  // namespace tenon::jit
