// See schedule.h. Tested by tests/unit/jit/schedule/schedule_test.cc.
#include "jit/schedule/schedule.h"

#include <algorithm>
#include <cstdlib>

#include "src/base/function_ref.h"

namespace tenon::jit {
namespace {

Dim coefficient(const Index& address, uint32_t axis) {
  const IndexTerm* t = address.find_axis(axis);
  return t ? t->coef : Dim(0);
}

// Whether the outer and inner axis can run as one loop: every access steps over both as over one axis.
bool mergeable(DimTable& dims, const std::vector<LoopAxis>& axes, uint32_t outer, uint32_t inner,
               const std::vector<Access>& accesses) {
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& a) {
    return coefficient(a.address, outer) == dims.mul(coefficient(a.address, inner), axes[inner].extent);
  });
}

// Scores a loop for lanes. Unit steps make vector loads, other steps make gathers. Gathers with long steps
// touch a cache line for each element. So do loaded indices: they change along every axis that has no step of
// its own. A store counts twice. is_filled(store, step): short loops store the elements between lanes this step apart.
int vector_score(const std::vector<uint32_t>& axes_of_class, const std::vector<Access>& accesses,
                 FunctionRef<bool(const Access& store, Dim step)> is_filled) {
  constexpr int64_t kShortStep = 4;
  int score = 0;
  for (const Access& a : accesses) {
    const Dim c = coefficient(a.address, axes_of_class.back());
    const int weight = a.store ? 2 : 1;
    const bool indexed = std::ranges::any_of(a.address.terms, [](const IndexTerm& t) { return t.dynamic; });
    if (c == Dim(1) || (a.store && is_filled(a, c)))
      score += weight;
    else if (c != Dim(0) || indexed)
      score -= c != Dim(0) && c.is_const() && std::abs(c.value()) <= kShortStep ? weight : 2 * weight;
  }
  return score;
}

// The axes of more than one step, in classes that run as one loop each. Outer and inner loops may run in any order, so an axis merges with
// any other one.
std::vector<std::vector<uint32_t>> merged_axes(const std::vector<LoopAxis>& axes,
                                               FunctionRef<bool(uint32_t outer, uint32_t inner)> merge) {
  std::vector<std::vector<uint32_t>> classes;
  for (const bool inner : {false, true}) {
    std::vector<uint32_t> left;
    for (uint32_t a = 0; a < axes.size(); ++a)
      if (axes[a].inner == inner && axes[a].extent != Dim(1)) left.push_back(a);
    while (!left.empty()) {
      std::vector<uint32_t>& chain = classes.emplace_back(1, left.front());
      left.erase(left.begin());
      for (size_t i = 0; i < left.size();) {
        const bool behind = merge(chain.back(), left[i]);
        if (!behind && !merge(left[i], chain.front())) {
          ++i;
          continue;
        }
        chain.insert(behind ? chain.end() : chain.begin(), left[i]);
        left.erase(left.begin() + static_cast<long>(i));
        i = 0;  // the longer chain may merge with an axis that the shorter one did not
      }
    }
  }
  return classes;
}

}  // namespace

Dim merged_extent(DimTable& dims, const std::vector<LoopAxis>& axes, const std::vector<uint32_t>& merged) {
  Dim extent(1);
  for (uint32_t a : merged) extent = dims.mul(extent, axes[a].extent);
  return extent;
}

// A sum of lanes takes as long as about 12 gathered elements of a row (AMD EPYC, Zen 4).
int64_t narrow_below(int folds, int streams) {
  constexpr int64_t kGathersOfFold = 12, kMost = 32;
  return std::clamp(kGathersOfFold * folds / std::max(streams, 1), kNarrow, kMost);
}

bool is_narrow(Dim extent) { return extent.is_const() && extent.value() < kNarrow; }

Schedule schedule(DimTable& dims, const std::vector<LoopAxis>& axes, const std::vector<Access>& accesses,
                  const std::vector<bool>& fixed, bool carried, int folds, bool unknown_is_narrow,
                  bool unrolls) {
  Schedule s;
  s.classes = merged_axes(axes, [&](uint32_t outer, uint32_t inner) {
    return !fixed[outer] && !fixed[inner] && !(carried && axes[inner].inner) &&
           mergeable(dims, axes, outer, inner, accesses);
  });
  for (int c = 0; c < static_cast<int>(s.classes.size()); ++c)
    (axes[s.classes[c].front()].inner ? s.inner : s.par).push_back(c);

  // Only accesses within the inner loops count, not those before or after them, unless the inner loops are short.
  std::vector<uint32_t> all_inner;
  for (int c : s.inner) all_inner.insert(all_inner.end(), s.classes[c].begin(), s.classes[c].end());
  // Lanes across rows gather the operands that have an element for each lane and each iteration.
  const auto streams = s.par.empty() ? 0 : std::ranges::count_if(accesses, [&](const Access& a) {
    const auto has_any_of = [&](const std::vector<uint32_t>& merged) {
      return std::ranges::any_of(a.address.terms, [&](const IndexTerm& t) {
        return !t.dynamic && std::ranges::find(merged, t.id) != merged.end();
      });
    };
    return has_any_of(all_inner) && has_any_of(s.classes[s.par.back()]);
  });
  s.narrow_below = narrow_below(folds, static_cast<int>(streams));
  const auto is_narrow_loop = [&](const std::vector<uint32_t>& merged) {
    const Dim extent = merged_extent(dims, axes, merged);
    const bool inner = !merged.empty() && axes[merged.front()].inner;
    if (!extent.is_const()) return inner && unknown_is_narrow;
    return extent.value() < (inner ? s.narrow_below : kNarrow);
  };
  const bool short_inner = is_narrow_loop(all_inner);
  std::vector<Access> repeated;
  for (const Access& a : accesses) {
    bool inside = short_inner;
    for (const IndexTerm& t : a.address.terms) inside = inside || t.dynamic || axes[t.id].inner;
    if (inside) repeated.push_back(a);
  }
  const Dim unrolled =
      dims.mul(merged_extent(dims, axes, all_inner), Dim(static_cast<int64_t>(accesses.size())));
  const bool may_fill = unrolls && unrolled.is_const() && unrolled.value() <= kMostUnrolled;
  const auto is_filled = [&](const Access& store, Dim step) {
    return may_fill && step != Dim(1) && std::ranges::any_of(s.inner, [&](int c) {
             return merged_extent(dims, axes, s.classes[c]) == step &&
                    coefficient(store.address, s.classes[c].back()) == Dim(1);
           });
  };
  auto best_of = [&](const std::vector<int>& candidates) {
    int best = -1;
    std::pair<bool, int> best_score;
    for (int c : candidates) {  // later (faster varying) classes win ties
      const std::pair score(!is_narrow_loop(s.classes[c]), vector_score(s.classes[c], repeated, is_filled));
      if (best < 0 || score >= best_score) best = c, best_score = score;
    }
    return std::pair(best, best_score);
  };
  auto [best_par, par_score] = best_of(s.par);
  auto [best_inner, inner_score] = best_of(s.inner);
  auto to_back = [](std::vector<int>& order, int c) {
    order.erase(std::find(order.begin(), order.end(), c));
    order.push_back(c);
  };
  const bool inner_possible = best_inner >= 0 && !carried;
  // Lanes of neighbouring windows need no sum of the lanes at the end of each window, and fill a vector however long a window is.
  const bool windows = inner_possible && best_par >= 0 && std::ranges::any_of(repeated, [&](const Access& a) {
                         return coefficient(a.address, s.classes[best_par].back()) == Dim(1) &&
                                coefficient(a.address, s.classes[best_inner].back()) == Dim(1);
                       });
  const bool filled = best_par >= 0 && !is_narrow_loop(s.classes[best_par]);
  if (carried && !filled)
    return s;  // a few long scans take less time one after another than as lanes that are gathered
  if (best_par >= 0 &&
      (!inner_possible || par_score > inner_score || (windows && (filled || par_score == inner_score)))) {
    s.simd_par = true;
    to_back(s.par, best_par);
  } else if (inner_possible) {
    s.simd_inner = true;
    to_back(s.inner, best_inner);
  }
  return s;
}

// Four chains of a 4-cycle add keep up with two loads per cycle. Long bodies hide the latency themselves.
int reduce_unroll(size_t statements) { return statements <= 6 ? 4 : statements <= 12 ? 2 : 1; }

// A local costs one store and a load for each reader, both in L1 or L2. This is no more than two operands,
// which the second and the third loop do not find in L1 if the row is long. Few rows of any length may run in
// parts, which have no locals.
bool keeps_row(Recomputed value, Dim row, const Dims& par) {
  constexpr int64_t kTwoOperands = 8, kLongRow = 1 << 16;
  if (value.expensive) return true;
  const bool many = std::any_of(par.begin(), par.end(), [](Dim d) { return !d.is_const(); });
  return value.stream_bytes >= kTwoOperands && (row.is_const() ? row.value() <= kLongRow : many);
}

// With a short axis, whole lines stay in L1 from one iteration to the next.
bool tiles_transposed(Dim across, Dim along) {
  constexpr int64_t kShort = 4;
  auto is_short = [](Dim d) { return d.is_const() && d.value() < kShort; };
  return !is_short(across) && !is_short(along);
}

// So few rows that lines at strides of a power of two fit in L1. Long bodies hide the load and the store, and
// should not be emitted more often than necessary.
int64_t rows_per_visit(size_t statements) { return statements <= 6 ? 4 : 1; }

namespace {

// Whether the number of rows is known to be less than `many`.
bool fewer(const Dims& par, int64_t many) {
  int64_t rows = 1;
  for (Dim d : par) rows = d.is_const() && rows < many && d.value() < many ? rows * d.value() : many;
  return rows < many;
}

// On a GPU, a block takes a part, which its registers hold, or shares the rows of columns. Channels of images
// are folded in parts of several images, but not if a channel has few elements or there are enough channels.
int64_t part_on_gpu(const Dims& par, Dim elements, bool columns, Dim inner, bool again) {
  constexpr int64_t kPart = 8192, kRowsOfPart = 512, kLeast = 1024, kFewRows = 64, kFewChannels = 1024,
                    kLongRow = 1 << 17;
  auto longer = [&](int64_t most) { return !(elements.is_const() && elements.value() <= most); };
  if (inner != Dim(1)) {
    const int64_t least = columns ? kRowsOfPart : kLeast;
    const int64_t part =
        inner.is_const() ? std::max<int64_t>(least / std::max<int64_t>(inner.value(), 1), 1) : 1;
    return longer(part) && (columns || fewer(par, kFewChannels)) ? part : 0;
  }
  if (columns) return longer(kRowsOfPart) ? kRowsOfPart : 0;
  const bool few = fewer(par, kFewRows) && longer(kPart);
  return few || (!again && elements.is_const() && elements.value() >= kLongRow) ? kPart : 0;
}

}  // namespace

// A part is worth waking a thread for. With as many parts as steps in a part, the errors of both folds are
// small. Many rows keep all threads busy already; they are split only if they are so long that errors would
// grow.
int64_t reduction_part(const Dims& par, Dim elements, bool columns, Target target, Dim inner, bool again) {
  constexpr int64_t kPart = 16384, kRowsOfPart = 1024, kFewRows = 64, kLongRow = 1 << 17;
  static_assert(kRowsOfPart % kRowsPerBlock == 0);
  if (target == Target::gpu) return part_on_gpu(par, elements, columns, inner, again);
  if (inner != Dim(1)) return 0;
  if (columns) return elements.is_const() && elements.value() <= kRowsOfPart ? 0 : kRowsOfPart;
  const bool few = fewer(par, kFewRows) && !(elements.is_const() && elements.value() <= kPart);
  return few || (elements.is_const() && elements.value() >= kLongRow) ? kPart : 0;
}

int64_t storing_part(Dim rows) {
  constexpr int64_t kPart = 128;
  static_assert(kPart % kRowsPerBlock == 0);
  return rows.is_const() && rows.value() <= kPart ? 0 : kPart;
}

int64_t online_part(const Dims& par, Dim elements) {
  constexpr int64_t kPart = 8192, kFewRows = 17, kLongRow = 1 << 18;
  return fewer(par, kFewRows) && elements.is_const() && elements.value() > kLongRow ? kPart : 0;
}

bool are_few_columns(Dim columns) {
  constexpr int64_t kMost = 2048;
  return columns.is_const() && columns.value() <= kMost;
}

// About four blocks per multiprocessor of a large GPU. The sums that the blocks store are small compared with
// their inputs.
Dim rows_of_block(DimTable& dims, Dim rows, Target target) {
  constexpr int64_t kBlocks = 512, kFewest = 4, kOnCpu = 32;
  if (target == Target::cpu) return Dim(kOnCpu);
  return dims.max(Dim(kFewest), dims.ceil_div(rows, Dim(kBlocks)));
}

// With more columns, sums and rows do not fit into registers, or into the caches of a core. With fewer, a block has
// little to do.
bool adds_up_columns(Dim columns, Target target) {
  constexpr int64_t kMost = 8192;
  const int64_t fewest = target == Target::cpu ? 16 : 128;
  return columns.is_const() && columns.value() >= fewest && columns.value() <= kMost;
}

int vectors_at_once(const Stmt& loop) {
  constexpr int kMostForFour = 64, kMostForTwo = 128;  // a lane-by-lane access counts as kMostForFour
  auto lane_by_lane = [&](const Stmt& s) {
    return std::ranges::any_of(s.address, [&](const Term& t) {
      if (t.var == loop.axes.back().var) return t.size >= 0 || t.factor != 1;
      return t.var != kNoRef && std::ranges::count(loop.body, t.var, &Stmt::result) > 0;
    });
  };
  int work = 0;
  for (const Stmt& s : loop.body) {
    if (!s.axes.empty() || s.kind == Stmt::Kind::scan) return loop.unroll;
    // A buffer that the body writes may only be read at the same address.
    if (s.kind == Stmt::Kind::store)
      for (const Stmt& other : loop.body)
        if (other.kind == Stmt::Kind::load && other.buffer == s.buffer && other.address != s.address)
          return loop.unroll;
    work += s.kind == Stmt::Kind::constant ? 0 : lane_by_lane(s) ? kMostForFour : 1;
  }
  const int wanted = work <= kMostForFour ? 4 : work <= kMostForTwo ? 2 : 1;
  return (wanted + loop.unroll - 1) / loop.unroll * loop.unroll;
}

int64_t min_iterations_per_thread(int64_t operations_per_iteration) {
  return std::max<int64_t>(1, kWorkPerThread / std::max<int64_t>(1, operations_per_iteration));
}

}  // namespace tenon::jit
