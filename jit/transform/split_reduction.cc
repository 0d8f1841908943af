// See split_reduction.h.
#include "jit/transform/split_reduction.h"

#include <algorithm>
#include <limits>
#include <set>

#include "jit/kernel/builder.h"
#include "jit/schedule/schedule.h"
#include "jit/transform/kernel_edit.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

class Splitter {
 public:
  Splitter(LoweredKernel whole, DimTable& dims, Target target)
      : whole_(std::move(whole)), dims_(dims), target_(target) {}

  // Empty if the kernel stays one.
  std::vector<LoweredKernel> run() {
    if (!find() || !choose()) return {};
    return {first(), second()};
  }

 private:
  bool find() {
    const Kernel& k = whole_.kernel;
    if (has_locals(k)) return false;
    const Block& body = k.body[0].body;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i].kind != K::reduce) continue;
      if (reduce_) return false;
      reduce_ = i;
    }
    if (!reduce_ || reduce().axes.size() > (target_ == Target::gpu ? 2 : 1)) return false;
    if (std::ranges::count(reduce().online, ops::square)) return false;  // `square add` needs whole axes
    // Values that the reduction reads from the par level can be computed twice.
    std::set<Ref> uses;
    collect_uses(reduce(), uses);
    for (size_t i = *reduce_; i-- > 0;) {
      const Stmt& s = body[i];
      if (!uses.count(s.result)) continue;
      if (s.kind == K::loop) return false;
      collect_uses(s, uses);
      needed_.insert(i);
    }
    stores_ = std::ranges::count(reduce().body, K::store, &Stmt::kind) > 0;
    return (!stores_ || k.body[0].simd) &&
           std::ranges::all_of(reduce().body, [](const Stmt& s) { return s.axes.empty(); });
  }
  bool choose() {
    const Stmt& par = whole_.kernel.body[0];
    columns_ = par.simd;
    for (const Axis& a : par.axes) par_.push_back(extent(a.extent));
    const Dim elements = extent(reduce().axes[0].extent);
    const Dim inner = reduce().axes.size() > 1 ? extent(reduce().axes[1].extent) : Dim(1);
    const bool again = std::any_of(par.body.begin() + static_cast<long>(*reduce_) + 1, par.body.end(),
                                   [](const Stmt& s) { return !s.axes.empty(); });
    const int64_t part = stores_ ? storing_part(elements)
                         : reduce().online.empty()
                             ? reduction_part(par_, elements, columns_, target_, inner, again)
                         : reduce().axes.size() == 1 ? online_part(par_, elements)
                                                     : 0;
    if (part == 0) return false;
    part_ = part;
    parts_ = dims_.ceil_div(elements, Dim(part));
    // Shape of the temporaries: [par..., parts], or [par..., parts, columns].
    Dims shape = par_;
    shape.insert(shape.end() - (columns_ ? 1 : 0), parts_);
    strides_.assign(shape.size(), Dim(1));
    for (size_t d = shape.size(); d-- > 1;) strides_[d - 1] = dims_.mul(strides_[d], shape[d]);
    temps_ = whole_.temps;
    for (Ref r : reduce().results)
      temps_.push_back({whole_.kernel.types[r], dims_.mul(strides_[0], shape[0])});
    return !dims_.is_overflow(temps_.back().length);
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
    const int base = add_temps(out, temps_, reduce().results.size(), Buffer::Role::out);
    body.push_back(std::move(fold));
    for (size_t r = 0; r < reduce().results.size(); ++r)
      KernelBuilder(k, body).store(base + static_cast<int>(r), place(out, par.axes), reduce().results[r]);
    par.body = std::move(body);
    // Interleaved rows are read together.
    if (!columns_) std::rotate(par.axes.begin(), par.axes.end() - 1, par.axes.end());
    drop_unused(out);
    for (BufferId b : out.buffers)
      if (const auto* v = std::get_if<ValueId>(&b); v && !stores_) out.inplace.push_back(*v);
    return out;
  }

  LoweredKernel second() {
    LoweredKernel out = whole_;
    Kernel& k = out.kernel;
    const int base = add_temps(out, temps_, reduce().results.size(), Buffer::Role::in);
    Stmt& par = k.body[0];
    Stmt& fold = par.body[*reduce_];
    fold.axes = {{k.add_ref(DType::i64, "q"), {1, size_argument(out, parts_)}}};
    fold.body.clear();
    std::vector<Axis> axes = par.axes;
    axes.insert(axes.end() - (columns_ ? 1 : 0), fold.axes[0]);
    for (size_t r = 0; r < fold.yields.size(); ++r)
      fold.yields[r] = KernelBuilder(k, fold.body).load(base + static_cast<int>(r), place(out, axes));
    if (!fold.online.empty()) empty_parts(k, fold);
    if (target_ == Target::gpu && !columns_) map_in_parts(k);
    drop_unused(out);
    return out;
  }
  // If the maximum of a part is -inf, the sum that follows it is NaN. It counts as 0, unless all parts are
  // like this: then the row is NaN, as it should be.
  static void empty_parts(Kernel& k, Stmt& fold) {
    const DType type = k.types[fold.yields[0]];
    KernelBuilder b(k, fold.body);
    const double inf = std::numeric_limits<double>::infinity();
    const Ref none = b.constant(type, Scalar::of(-inf)), zero = b.constant(type, Scalar::of(0.0)),
              empty = b.op(ops::eq, {fold.yields[0], none});
    for (size_t r = 1; r < fold.yields.size(); ++r)
      if (fold.online[r] != kPlain) fold.yields[r] = b.op(ops::where, {empty, zero, fold.yields[r]});
  }
  // Loops that walk the row again take its parts too. Each par iteration then folds the temporaries of the
  // first kernel again.
  void map_in_parts(Kernel& k) const {
    Stmt& par = k.body[0];
    std::vector<Axis*> again;
    for (size_t i = 0; i < par.body.size(); ++i) {
      Stmt& s = par.body[i];
      if (s.kind == K::store) return;
      if (s.axes.empty() || i == *reduce_) continue;
      if (s.kind != K::loop || !s.simd || s.axes.size() != 1 || s.axes[0].extent != reduce().axes[0].extent)
        return;
      again.push_back(&s.axes[0]);
    }
    if (again.empty()) return;
    const Ref part = k.add_ref(DType::i64, "p");
    par.axes.push_back({part, reduce().axes[0].extent, {part_}});
    for (Axis* a : again) {
      a->extent = {};
      a->of = part;
    }
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
  std::optional<size_t> reduce_;  // index in the par body
  std::set<size_t> needed_;       // earlier statements that it reads
  bool columns_ = false, stores_ = false;
  Dims par_, strides_;
  int64_t part_ = 0;
  Dim parts_;
  std::vector<Temp> temps_;  // those that the kernel had, then one for each result
};

}  // namespace

std::vector<LoweredKernel> split_reduction(const LoweredKernel& lowered, DimTable& dims, Target target) {
  std::vector<LoweredKernel> parts = Splitter(lowered, dims, target).run();
  if (parts.empty()) parts.push_back(lowered);
  return parts;
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

bool walks_apart_again(const LoweredKernel& lowered) {
  const Stmt& par = lowered.kernel.body[0];
  if (!par.simd || par.axes.size() != 1) return false;
  const auto walks = [](const Stmt& s) { return s.axes.size() > 1; };
  return std::ranges::count_if(par.body, walks) > 1 && std::ranges::any_of(par.body, [&](const Stmt& s) {
           return s.kind == Stmt::Kind::reduce && walks(s);
         });
}

}  // namespace tenon::jit
