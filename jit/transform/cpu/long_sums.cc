// See long_sums.h.
#include "jit/transform/cpu/long_sums.h"

#include <algorithm>

#include "jit/kernel/builder.h"
#include "jit/schedule/schedule.h"
#include "jit/transform/kernel_edit.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

// Elements of a sum that stays whole, and of a part. A chain is a sum that one lane adds up.
constexpr int64_t kLongest = 1 << 15, kPartOfSum = 1 << 14;
constexpr int64_t kLongestChain = 512, kPartOfChain = 128;
constexpr int64_t kFewRows = 64;
constexpr int64_t kRowsOfUnknown = 8;  // rows of a part, if the length of a row is not known

class LongSums {
 public:
  LongSums(LoweredKernel& whole, DimTable& dims) : whole_(whole), k_(whole.kernel), dims_(dims) {}

  void run(Block& body) {
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i].kind == K::reduce && is_long(body[i]))
        i = replace(body, i);
      else
        run(body[i].body);
    }
  }

 private:
  bool is_sum(const Stmt& fold, size_t r) const {
    return fold.combine[r] == ops::add && compute_type(k_.types[fold.results[r]]) == DType::f32;
  }
  Dim length(const Axis& axis) const { return dim_of(axis.extent, whole_, dims_); }

  bool is_long(const Stmt& fold) const {
    bool sums = false;
    for (size_t r = 0; r < fold.combine.size(); ++r) sums = sums || is_sum(fold, r);
    if (!sums || !(fold.simd || is_chain(fold)) || !fold.online.empty()) return false;
    if (std::ranges::any_of(fold.axes, [](const Axis& a) { return !a.is_whole(); })) return false;
    if (std::ranges::any_of(fold.body, [](const Stmt& s) { return !s.axes.empty() || s.kind == K::scan; }))
      return false;
    Dim elements = 1;
    for (const Axis& a : fold.axes) elements = dims_.mul(elements, length(a));
    if (elements.is_const()) return elements.value() > (fold.simd ? kLongest : kLongestChain);
    return fold.axes.size() > 1 || has_few_rows();
  }
  // Whether lanes across columns add up several axes, of which the last is narrow. tile_columns takes the others.
  bool is_chain(const Stmt& fold) const {
    return k_.body[0].simd && fold.axes.size() > 1 && is_narrow(length(fold.axes.back()));
  }
  // Many rows of unknown length are likely to be short, and parts cost 10 to 20 % of the sum of a short row.
  bool has_few_rows() const {
    Dim rows = 1;
    for (const Axis& a : k_.body[0].axes) rows = dims_.mul(rows, length(a));
    return rows.is_const() && rows.value() < kFewRows;
  }

  // Takes the axes that enumerate parts out of the fold: the axes before the one that is cut, and the pieces of this one. A part has
  // about kPartOfSum or kPartOfChain elements.
  std::vector<Axis> take_parts(Stmt& fold) {
    const int64_t of_part = fold.simd ? kPartOfSum : kPartOfChain;
    const auto is_part = [&](Dim elements) { return elements.is_const() && elements.value() <= of_part; };
    size_t at = fold.axes.size() - 1;
    Dim row = length(fold.axes[at]);  // elements of the axes behind the one that is cut
    int64_t piece = of_part;
    if (at > 0 && !(row.is_const() && row.value() > kLongest)) {
      for (--at; at > 0 && is_part(dims_.mul(row, length(fold.axes[at]))); --at)
        row = dims_.mul(row, length(fold.axes[at]));
      piece =
          row.is_const() ? std::max<int64_t>(1, of_part / std::max<int64_t>(1, row.value())) : kRowsOfUnknown;
    }
    const auto cut = fold.axes.begin() + static_cast<long>(at);
    std::vector<Axis> parts(fold.axes.begin(), cut);
    const Ref part = k_.add_ref(DType::i64, "part");
    parts.push_back({part, cut->extent, {piece, -1}});
    cut->extent = {};
    cut->of = part;
    fold.axes.erase(fold.axes.begin(), cut);
    return parts;
  }

  // Puts a sum of parts in the place of the fold. Returns the position of its last statement.
  size_t replace(Block& body, size_t at) {
    Stmt fold = std::move(body[at]), parts{.kind = K::reduce};
    parts.axes = take_parts(fold);
    parts.combine = fold.combine;
    parts.results = fold.results;
    std::vector<bool> sums;
    for (size_t r = 0; r < fold.results.size(); ++r) sums.push_back(is_sum(fold, r));
    for (Ref& result : fold.results) result = k_.add_ref(k_.types[result], "of_part");
    parts.yields = fold.results;
    parts.body.push_back(std::move(fold));
    Block narrowed;
    for (size_t r = 0; r < sums.size(); ++r) {
      if (!sums[r]) continue;
      parts.yields[r] = KernelBuilder(k_, parts.body).cast(parts.yields[r], DType::f64);
      const Ref total = parts.results[r];
      parts.results[r] = k_.add_ref(DType::f64, "of_parts");
      narrowed.push_back(
          {.kind = K::cast, .type = k_.types[total], .result = total, .args = {parts.results[r]}});
    }
    body[at] = std::move(parts);
    body.insert(body.begin() + static_cast<long>(at) + 1, narrowed.begin(), narrowed.end());
    return at + narrowed.size();
  }

  LoweredKernel& whole_;
  Kernel& k_;
  DimTable& dims_;
};

}  // namespace

LoweredKernel long_sums(LoweredKernel kernel, DimTable& dims) {
  LongSums(kernel, dims).run(kernel.kernel.body);
  return kernel;
}

}  // namespace tenon::jit
