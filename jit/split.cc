// See split.h.
#include "jit/split.h"

#include <algorithm>
#include <set>

#include "jit/pieces.h"
#include "jit/schedule.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

class Splitter {
 public:
  Splitter(LoweredKernel whole, DimTable& dims, Target target)
      : whole_(std::move(whole)), dims_(dims), target_(target) {}

  std::vector<LoweredKernel> run() {
    std::vector<LoweredKernel> result;
    if (!find() || !choose()) {
      result.push_back(std::move(whole_));
      return result;
    }
    result.push_back(first());
    result.push_back(second());
    return result;
  }

 private:
  bool find() {
    const Kernel& k = whole_.kernel;
    for (const Buffer& b : k.buffers)
      if (b.role == Buffer::Role::local) return false;
    const Block& body = k.body[0].body;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i].kind != K::reduce) continue;
      if (reduce_) return false;
      reduce_ = i;
    }
    if (!reduce_ || reduce().axes.size() > (target_ == Target::gpu ? 2 : 1)) return false;
    // What it reads from the par level can be computed twice.
    std::set<Ref> uses;
    collect_uses(reduce(), uses);
    for (size_t i = *reduce_; i-- > 0;) {
      const Stmt& s = body[i];
      if (!uses.count(s.result)) continue;
      if (s.kind == K::loop) return false;
      collect_uses(s, uses);
      needed_.insert(i);
    }
    return std::ranges::all_of(reduce().body,
                               [](const Stmt& s) { return s.axes.empty() && s.kind != K::store; });
  }
  bool choose() {
    const Stmt& par = whole_.kernel.body[0];
    columns_ = par.simd;
    for (const Axis& a : par.axes) par_.push_back(extent(a.extent));
    const Dim elements = extent(reduce().axes[0].extent);
    const Dim inner = reduce().axes.size() > 1 ? extent(reduce().axes[1].extent) : Dim(1);
    const int64_t part = reduction_part(par_, elements, columns_, target_, inner);
    if (part == 0) return false;
    part_ = part;
    parts_ = dims_.ceil_div(elements, Dim(part));
    // Temporaries: [par..., parts], or [par..., parts, columns].
    Dims shape = par_;
    shape.insert(shape.end() - (columns_ ? 1 : 0), parts_);
    strides_.assign(shape.size(), Dim(1));
    for (size_t d = shape.size(); d-- > 1;) strides_[d - 1] = dims_.mul(strides_[d], shape[d]);
    for (Ref r : reduce().results)
      temps_.push_back({whole_.kernel.types[r], dims_.mul(strides_[0], shape[0])});
    return !dims_.is_overflow(temps_[0].length);
  }

  LoweredKernel first() {
    LoweredKernel out = whole_;
    Kernel& k = out.kernel;
    k.name += "_parts";
    Stmt& par = k.body[0];
    Block body;
    for (size_t i : needed_) body.push_back(par.body[i]);
    Stmt fold = reduce();
    const Ref part = k.add_ref(DType::i64, "p");
    par.axes.insert(par.axes.end() - (columns_ ? 1 : 0), {part, fold.axes[0].extent, {part_}});
    fold.axes[0].extent = {};
    fold.axes[0].of = part;
    const int base = add_temps(out, temps_, temps_.size(), Buffer::Role::out);
    body.push_back(std::move(fold));
    for (size_t r = 0; r < temps_.size(); ++r)
      body.push_back({.kind = K::store,
                      .args = {reduce().results[r]},
                      .buffer = base + static_cast<int>(r),
                      .address = place(out, par.axes)});
    par.body = std::move(body);
    // Rows that lie within each other are read together.
    if (!columns_) std::rotate(par.axes.begin(), par.axes.end() - 1, par.axes.end());
    drop_unused(out);
    out.inplace = out.buffers;  // it writes no output
    return out;
  }

  LoweredKernel second() {
    LoweredKernel out = whole_;
    Kernel& k = out.kernel;
    const int base = add_temps(out, temps_, temps_.size(), Buffer::Role::in);
    Stmt& par = k.body[0];
    Stmt& fold = par.body[*reduce_];
    fold.axes = {{k.add_ref(DType::i64, "q"), {1, size_argument(out, parts_)}}};
    fold.body.clear();
    std::vector<Axis> axes = par.axes;
    axes.insert(axes.end() - (columns_ ? 1 : 0), fold.axes[0]);
    for (size_t r = 0; r < temps_.size(); ++r) {
      const Ref value = k.add_ref(temps_[r].type);
      fold.body.push_back({.kind = K::load,
                           .type = temps_[r].type,
                           .result = value,
                           .buffer = base + static_cast<int>(r),
                           .address = place(out, axes)});
      fold.yields[r] = value;
    }
    drop_unused(out);
    return out;
  }

  const Stmt& reduce() const { return whole_.kernel.body[0].body[*reduce_]; }
  Dim extent(const Extent& e) const { return dim_of(e, whole_, dims_); }
  Address place(LoweredKernel& k, const std::vector<Axis>& axes) const {
    Address at;
    for (size_t a = 0; a < axes.size(); ++a)
      at.push_back({1, strides_[a] == Dim(1) ? -1 : size_argument(k, strides_[a]), axes[a].var});
    return at;
  }

  LoweredKernel whole_;
  DimTable& dims_;
  const Target target_;
  std::optional<size_t> reduce_;  // in the par body
  std::set<size_t> needed_;       // statements before it that it reads
  bool columns_ = false;
  Dims par_, strides_;
  int64_t part_ = 0;
  Dim parts_;
  std::vector<Temp> temps_;
};

}  // namespace

std::vector<LoweredKernel> split_reduction(LoweredKernel lowered, DimTable& dims, Target target) {
  return Splitter(std::move(lowered), dims, target).run();
}

bool walks_again(const LoweredKernel& lowered, DimTable& dims) {
  const Stmt& par = lowered.kernel.body[0];
  auto extent = [&](const Axis& a) { return dim_of(a.extent, lowered, dims); };
  Dims rows;
  for (const Axis& a : par.axes) rows.push_back(extent(a));
  int walks = 0;
  for (const Stmt& s : par.body) {
    if (s.axes.empty()) continue;
    const Dim steps = extent(s.axes[0]);
    if (s.axes.size() == 1)
      walks += par.simd && !(steps.is_const() && steps.value() <= kMostRowsAgain);
    else if (s.axes.size() == 2)
      walks += reduction_part(rows, steps, par.simd, Target::gpu, extent(s.axes[1])) > 0;
  }
  return walks > 1;
}

}  // namespace tenon::jit
