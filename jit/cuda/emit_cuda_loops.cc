// See emit_cuda_loops.h.
#include "jit/cuda/emit_cuda_loops.h"

#include <algorithm>

#include "jit/cuda/cuda_text.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;
using Locals = CudaSchedule::Locals;

}  // namespace

CudaLoops::Range CudaLoops::range(const Axis& axis) {
  Range r{"0", axis.of == kNoRef ? extent(axis.extent) : ""};
  if (axis.of != kNoRef) {
    const auto& [by, all] = tiles_.at(axis.of);
    r.begin = variable(axis.of) + " * " + by;
    r.end = "tn_minimum((tn_ix)(" + variable(axis.of) + " * " + by + " + " + by + "), (tn_ix)(" + all + "))";
  }
  if (axis.counts_tiles()) {
    const bool known = axis.by.size < 0;
    const std::string by = known || axis.by.factor == 1 ? extent(axis.by) : "(" + extent(axis.by) + ")";
    tiles_[axis.var] = {by, r.end};
    r.begin = r.begin == "0" ? "0" : "(" + r.begin + ") / " + by;
    r.end = "(" + r.end + " + " + (known ? number(axis.by.factor - 1) : by + " - 1") + ") / " + by;
  }
  return r;
}
const Stmt& CudaLoops::last_control() const {
  const Block& body = k_.body[0].body;
  return *std::ranges::find_if(body.rbegin(), body.rend(), [](const Stmt& s) { return !s.axes.empty(); });
}
// Emits axes [0, count) as nested loops, then `body`.
void CudaLoops::nest(const std::vector<Axis>& axes, size_t count, const std::function<void()>& body) {
  for (size_t a = 0; a < count; ++a) {
    const Range r = range(axes[a]);
    const std::string var = variable(axes[a].var);
    loop_variable_.insert(axes[a].var);
    open("for (tn_ix " + var + " = " + r.begin + "; " + var + " < " + r.end + "; ++" + var + ")");
  }
  body();
  for (size_t a = 0; a < count; ++a) close();
}

// Emits a simd loop of a team, or of a single thread, around `body`. The loads of all chunks of a row are
// issued before the first chunk is computed.
void CudaLoops::simd_loop(const Stmt& s, const std::function<void()>& body) {
  nest(s.axes, s.axes.size() - 1, [&] {
    const Axis& axis = s.axes.back();
    Range r = range(axis);
    loop_variable_.insert(axis.var);
    if (axis.of != kNoRef) {
      const std::string end = "e" + std::to_string(axis.var);
      line("const tn_ix " + end + " = " + r.end + ";");
      r.end = end;
    }
    if (s_.chunks == 0) return over_row(axis, r, body);
    simd_ = axis.var;
    varies_[simd_] = true;
    const std::vector<const Stmt*> loads =
        s_.chunks > 1 ? loads_of_chunks(s.body) : std::vector<const Stmt*>();
    if (!loads.empty()) {
      step_ = "c";
      for (const Stmt* load : loads) declare_ahead(*load, s_.chunks);
      over_chunks(axis, r, [&] {
        for (const Stmt* load : loads) load_ahead(*load);
      });
      line("tn_loads_first();");
      begin_ahead(loads);
    }
    over_chunks(axis, r, body);
    end_ahead();
    step_ = "u";
  });
}

// Emits the lanes of this thread in steps of its team: over_row as a loop, over_chunks unrolled.
void CudaLoops::over_row(const Axis& axis, const Range& r, const std::function<void()>& body) {
  const std::string var = variable(axis.var), first = first_lane();
  const bool own = s_.cluster > 1 && s_.locals == Locals::shared;
  const std::string begin = r.begin == "0" ? first : first == "0" ? r.begin : r.begin + " + " + first;
  open("for (tn_ix " + var + " = " + begin + (own ? ", own = threadIdx.x * " + number(vector_) : "") + "; " +
       var + " < " + r.end + "; " + var + " += " + number(team_ * s_.cluster * vector_) +
       (own ? ", own += " + number(team_ * vector_) : "") + ")");
  enter_lanes(axis, r.end);
  body();
  leave_lanes();
  close();
}
void CudaLoops::over_chunks(const Axis& axis, const Range& r, const std::function<void()>& body) {
  const std::string var = variable(axis.var);
  line("#pragma unroll");
  open("for (int c = 0; c < " + number(s_.chunks) + "; ++c)");
  line("const tn_ix " + var + " = " + (r.begin == "0" ? "" : r.begin + " + ") + "(tn_ix)c * " +
       number(team_ * s_.cluster * vector_) + " + " + first_lane() + ";");
  open("if (" + var + " < " + r.end + ")");
  enter_lanes(axis, r.end);
  body();
  leave_lanes();
  close();
  close();
}
std::string CudaLoops::first_lane() const {
  return team_ > 1 ? vector_ > 1 ? "lane * " + number(vector_) : "lane" : "0";
}

std::string CudaLoops::identity(OpId fold, DType t) const {
  const auto v = combine_identity(fold, t);
  TENON_CHECK(v, std::string(op(fold).name) + " has no identity");
  return cuda_literal(compute_type(t), *v);
}

// ---- loops and reductions ----

void CudaLoops::emit_control(const Stmt& s) { s.kind == K::loop ? emit_loop(s) : emit_reduce(s); }

void CudaLoops::declare(Ref ref, bool lanes, const std::string& name, const std::string& first) {
  if (lanes)
    line(type(ref) + " " + name + "[" + number(vector_) + "]; TN_EACH " + name + "[v] = " + first + ";");
  else
    line(type(ref) + " " + name + " = " + first + ";");
}

void CudaLoops::emit_loop(const Stmt& s) {
  if (s.simd) return simd_loop(s, [&] { emit_lanes(s.body, {}); });
  const bool lanes = simd_ != kNoRef;
  for (const Stmt& inner : s.body)
    if (inner.kind == K::scan)
      declare(inner.result, lanes, accumulator(inner.result), identity(inner.op, inner.type));
  nest(s.axes, s.axes.size(), [&] {
    if (lanes) return emit_lanes(s.body, {});
    for (const Stmt& inner : s.body) emit_uniform(inner);
  });
}

// Emits the loops of a reduction around `body`, which is one step and its folds. If the schedule says so,
// several steps of the innermost loop run together: their loads are issued before the first step is folded.
// Threads that share a column take turns.
void CudaLoops::fold_in_order(const Stmt& s, const std::function<void()>& body) {
  const std::vector<const Stmt*> loads = s_.ahead > 1 ? loads_ahead(s.body) : std::vector<const Stmt*>();
  if (loads.empty() && s_.rows == 1) return nest(s.axes, s.axes.size(), body);
  nest(s.axes, s.axes.size() - 1, [&] {
    const bool turns = s_.rows > 1;
    const Axis& axis = s.axes.back();
    const Range r = range(axis);
    const std::string var = variable(axis.var), at = "g" + std::to_string(axis.var),
                      end = "e" + std::to_string(axis.var), steps = number(s_.ahead),
                      all = number(int64_t{s_.ahead} * s_.rows);
    loop_variable_.insert(axis.var);
    auto each_step = [&](const std::function<void()>& step) {
      line("#pragma unroll");
      open("for (int u = 0; u < " + steps + "; ++u)");
      line("const tn_ix " + var + " = " + at + " + u" + (turns ? " * " + number(s_.rows) : "") + ";");
      step();
      close();
    };
    line("const tn_ix " + end + " = " + r.end + ";");
    line("tn_ix " + at + " = " + r.begin + (turns ? " + row" : "") + ";");
    if (!loads.empty()) {
      open("for (; " + at + " + " + number((s_.ahead - 1) * s_.rows) + " < " + end + "; " + at +
           " += " + all + ")");
      for (const Stmt* load : loads) declare_ahead(*load, s_.ahead);
      each_step([&] {
        for (const Stmt* load : loads) load_ahead(*load);
      });
      line("tn_loads_first();");
      begin_ahead(loads);
      each_step(body);
      end_ahead();
      close();
    }
    open("for (tn_ix " + var + " = " + at + "; " + var + " < " + end + "; " +
         (turns ? var + " += " + number(s_.rows) : "++" + var) + ")");
    body();
    close();
  });
}

void CudaLoops::emit_reduce(const Stmt& s) {
  if (!s.online.empty()) return emit_online(s);
  const bool lanes = simd_ != kNoRef;  // then each lane folds on its own
  for (size_t r = 0; r < s.results.size(); ++r) {
    if (lanes) varies_[s.results[r]] = array_[s.results[r]] = true;
    const std::string name = lanes ? value(s.results[r]) : accumulator(s.results[r]);
    declare(s.results[r], lanes, name, identity(s.combine[r], k_.types[s.results[r]]));
  }
  auto fold = [&](const std::string& suffix) {
    for (size_t r = 0; r < s.results.size(); ++r) {
      const std::string a = (lanes ? value(s.results[r]) : accumulator(s.results[r])) + suffix;
      line(a + " = " + fold_call(s.combine[r], a, use(s.yields[r])) + ";");
    }
  };
  if (s.simd) {
    auto tail = [&] {
      if (whole_) return fold("");
      open("if (v < count)");
      fold("");
      close();
    };
    simd_loop(s, [&] { emit_lanes(s.body, tail, s.yields); });
  } else {
    fold_in_order(s, [&] {
      if (lanes) return emit_lanes(s.body, [&] { fold("[v]"); }, s.yields);
      for (const Stmt& inner : s.body) emit_uniform(inner);
      fold("");
    });
  }
  for (size_t r = 0; lanes && s_.rows > 1 && r < s.results.size(); ++r) {
    const std::string t = type(s.results[r]);
    line("tn_rows_fold<" + number(s_.block) + ", " + number(s_.rows) + ", " +
         (s.results == last_control().results ? "false" : "true") + ">(" + value(s.results[r]) + ", [](" + t +
         " a, " + t + " b) { return " + fold_call(s.combine[r], "a", "b") + "; }, parts);");
  }
  if (lanes) return;
  for (size_t r = 0; r < s.results.size(); ++r)
    line("const " + type(s.results[r]) + " " + value(s.results[r]) + " = " + of_team(s, r) + ";");
}
// The text of the fold of the accumulators of all threads of the team, or of its cluster.
std::string CudaLoops::of_team(const Stmt& s, size_t result) const {
  const std::string t = type(s.results[result]), a = accumulator(s.results[result]);
  if (!s.simd || team_ == 1) return a;
  return (s_.cluster > 1 ? "tn_cluster_fold<" + number(team_) + ", " + number(s_.cluster)
                         : "tn_team_fold<" + number(team_)) +
         ">(" + a + ", [](" + t + " a, " + t + " b) { return " + fold_call(s.combine[result], "a", "b") +
         "; }, slots, " + (s_.cluster > 1 ? "parts, " : "") + "turn)";
}

// A reduction with results that follow its first result. Each thread keeps the results of the vectors it has
// read: when the first result moves, the others move with it. At the end, all threads of a team move to the
// first result of the team.
void CudaLoops::emit_online(const Stmt& s) {
  TENON_CHECK(s.simd && simd_ == kNoRef, "what follows another result stands in loops of a team");
  for (size_t r = 0; r < s.results.size(); ++r)
    declare(s.results[r], false, accumulator(s.results[r]), identity(s.combine[r], k_.types[s.results[r]]));
  s.combine[0] == ops::maximum ? emit_exps(s) : emit_squares(s);
}

// Sums of exp(x - maximum). For each vector the maximum grows first, and the sums are scaled once.
void CudaLoops::emit_exps(const Stmt& s) {
  const Ref first = s.results[0];
  const std::string t = type(first), n = std::to_string(first), a = accumulator(first), most = "most" + n,
                    base = "base" + n, scale = "scale" + n, e = "e" + n;
  auto scale_sums = [&](const std::string& by) {
    for (size_t r = 1; r < s.results.size(); ++r)
      if (const std::string sum = accumulator(s.results[r]); s.online[r] != kPlain)
        line(sum + " = " + fold_call(ops::mul, sum, by) + ";");
  };
  simd_loop(s, [&] {
    emit_lanes(s.body, {}, s.yields);
    line(t + " " + most + " = " + a + ";");
    each_lane([&] { line(most + " = " + fold_call(ops::maximum, most, use(s.yields[0])) + ";"); });
    line("const " + t + " " + base + " = tn_base(" + most + "), " + scale + " = tn_exp(tn_sub(" + a + ", " +
         base + "));");
    line(a + " = " + most + ";");
    scale_sums(scale);
    each_lane([&] {
      line("const " + t + " " + e + " = tn_exp(tn_sub(" + use(s.yields[0]) + ", " + base + "));");
      for (size_t r = 1; r < s.results.size(); ++r) {
        const std::string sum = accumulator(s.results[r]), y = use(s.yields[r]);
        line(sum + " = " +
             fold_call(s.combine[r], sum, s.online[r] == kPlain ? y : fold_call(ops::mul, y, e)) + ";");
      }
    });
  });
  line("const " + t + " " + value(first) + " = " + of_team(s, 0) + ", " + base + " = tn_base(" +
       value(first) + "), " + scale + " = tn_exp(tn_sub(" + a + ", " + base + "));");
  scale_sums(scale);
  std::string any;
  for (const Axis& axis : s.axes)  // tiles are not empty
    if (axis.of == kNoRef) any += (any.empty() ? "" : " && ") + extent(axis.extent) + " > 0";
  for (size_t r = 1; r < s.results.size(); ++r) {
    const std::string v = value(s.results[r]), team = of_team(s, r);
    if (s.online[r] == kPlain) {
      line("const " + type(s.results[r]) + " " + v + " = " + team + ";");
      continue;
    }
    line(t + " " + v + " = " + team + ";");
    line((any.empty() ? "" : "if (" + any + ") ") + v + " = tn_sum_below(" + value(first) + ", " + v + ");");
  }
}

// Sums of squared distances from the mean. A thread measures distances from a mean of the numbers that it has
// read so far.
void CudaLoops::emit_squares(const Stmt& s) {
  const Ref first = s.results[0];
  const std::string t = type(first), n = std::to_string(first), seen = "seen" + n, from = "from" + n,
                    far = "far" + n, moved = "moved" + n, mean = "mean" + n, next = "next" + n;
  const auto following = std::ranges::find(s.online, ops::square) - s.online.begin();
  const std::string squares = accumulator(s.results[static_cast<size_t>(following)]);
  line(t + " " + seen + " = 0, " + next + " = 0, " + from + " = 0, " + moved + " = 0;");
  simd_loop(s, [&] {
    emit_lanes(s.body, {}, s.yields);
    open("if (" + seen + " >= " + next + ")");
    line("const int v = 0;");
    line("tn_center(" + use(s.yields[0]) + ", " + seen + ", " + next + ", " + from + ", " + moved + ", " +
         squares + ");");
    close();
    line(seen + " += " + (whole_ ? number(vector_) : "count") + ";");
    each_lane([&] {
      line("const " + t + " " + far + " = " + fold_call(ops::sub, use(s.yields[0]), from) + ";");
      line(moved + " = " + fold_call(ops::add, moved, far) + ";");
      for (size_t r = 0; r < s.results.size(); ++r) {
        const std::string sum = accumulator(s.results[r]);
        const std::string y = s.online[r] == kPlain ? use(s.yields[r]) : fold_call(ops::mul, far, far);
        line(sum + " = " + fold_call(s.combine[r], sum, y) + ";");
      }
    });
  });
  std::string count;
  for (const Axis& axis : s.axes) count += (count.empty() ? "" : " * ") + extent(axis.extent);
  line("const " + t + " " + value(first) + " = " + of_team(s, 0) + ", " + mean + " = " + value(first) +
       " / (" + t + ")(" + count + ");");
  for (size_t r = 1; r < s.results.size(); ++r) {
    if (s.online[r] != kPlain)
      line(squares + " = tn_squares_about(" + mean + ", " + seen + ", " + from + ", " + moved + ", " +
           squares + ");");
    line("const " + type(s.results[r]) + " " + value(s.results[r]) + " = " + of_team(s, r) + ";");
  }
}

void CudaLoops::each_lane(const std::function<void()>& body) {
  open(whole_ ? "TN_EACH" : "TN_EACH if (v < count)");
  body();
  close();
}

}  // namespace tenon::jit
