// See emit_cuda.h. Control flow: which threads do which iterations of the par nest and of the simd loops within, where locals
// lie, how loops run and reductions fold. The statements between are CudaLanes'. What does not differ from lane to lane is
// a scalar that all threads of a team compute alike.
#include "jit/emit_cuda.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "jit/cuda_text.h"
#include "jit/emit_cuda_lanes.h"
#include "src/ops/names.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;
using Form = CudaSchedule::Form;
using Locals = CudaSchedule::Locals;

class CudaEmitter final : CudaLanes {
 public:
  CudaEmitter(const Kernel& kernel, const CudaSchedule& schedule) : CudaLanes(kernel, schedule) {}

  std::string run() {
    text_ = "#undef TN_EACH\n#define TN_EACH _Pragma(\"unroll\") for (int v = 0; v < " + number(vector_) +
            "; ++v)\n";
    text_ += "extern \"C\" __global__ void __launch_bounds__(" + number(s_.block) + ", 1) " + k_.name + "(";
    std::string parameters;
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      const Buffer& buffer = k_.buffers[b];
      if (buffer.role == Buffer::Role::local) continue;
      parameters += (parameters.empty() ? "" : ", ") +
                    std::string(buffer.role == Buffer::Role::in ? "const " : "") +
                    std::string(cuda_memory_type(buffer.type)) + "* " + pointer(b);
    }
    for (size_t i = 0; i < k_.sizes.size(); ++i)
      parameters += (parameters.empty() ? "" : ", ") + std::string("tn_ix s") + std::to_string(i);
    if (s_.locals == Locals::global) parameters += ", char* scratch, tn_ix scratch_stride";
    text_ += parameters + ") {\n";
    if (s_.locals == Locals::registers) find_kept_loads();
    emit_par();
    return text_ + "}\n";
  }

 private:
  const Stmt& par() const { return k_.body[0]; }

  // ---- the par nest ----

  void emit_par() {
    const Stmt& s = par();
    if (team_ > 1) line("const int lane = threadIdx.x % " + number(team_) + ";");
    if (team_ > 32)
      line("TN_SHARED tn_u64 slots[2][32];");
    else if (team_ > 1)
      line("tn_u64 (*slots)[32] = 0;");
    if (team_ > 1) line("int turn = 0;");
    if (s_.locals == Locals::shared) line("TN_DYNAMIC_SHARED(shared);");

    std::string total;
    for (size_t a = 0; a < s.axes.size(); ++a) {
      std::string count = range(s.axes[a]).end;
      if (s.simd && a + 1 == s.axes.size() && vector_ > 1)
        count = whole_ ? "(" + count + ") / " + number(vector_)
                       : "(" + count + " + " + number(vector_ - 1) + ") / " + number(vector_);
      line("const tn_ix n" + number(static_cast<int64_t>(a)) + " = " + count + ";");
      total += (total.empty() ? "n" : " * n") + number(static_cast<int64_t>(a));
    }
    if (total.empty()) total = "1";
    const int teams = s_.block / team_;
    open("for (tn_ix at = (tn_ix)blockIdx.x * " + number(teams) + " + threadIdx.x" +
         (team_ > 1 ? " / " + number(team_) : "") + "; at < " + total + "; at += (tn_ix)gridDim.x * " +
         number(teams) + ")");
    if (s.axes.size() > 1) line("tn_ix rest = at;");
    for (size_t a = s.axes.size(); a-- > 0;) {
      loop_variable_.insert(s.axes[a].var);
      std::string digit = s.axes.size() == 1 ? "at"
                          : a == 0           ? "rest"
                                             : "rest % n" + number(static_cast<int64_t>(a));
      if (s.simd && a + 1 == s.axes.size() && vector_ > 1) digit = "(" + digit + ") * " + number(vector_);
      line("const tn_ix " + variable(s.axes[a].var) + " = " + digit + ";");
      if (a > 0) line("rest /= n" + number(static_cast<int64_t>(a)) + ";");
    }
    place_locals();
    declare_kept_loads();
    if (s.simd) {
      enter_lanes(s.axes.back());
      emit_lanes(s.body, {});
      leave_lanes();
    } else {
      for (const Stmt& inner : s.body) emit_uniform(inner);
    }
    close();
  }

  void place_locals() {
    bool begun = false;
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      const Buffer& buffer = k_.buffers[b];
      if (buffer.role != Buffer::Role::local) continue;
      const std::string memory(cuda_memory_type(buffer.type));
      if (s_.locals == Locals::registers) {
        line(memory + " " + pointer(b) + "[" + number(int64_t{s_.chunks} * vector_) + "];");
        continue;
      }
      const std::string teams = number(s_.block / team_);
      if (!begun) {
        if (s_.locals == Locals::shared)
          line("char* local = shared + threadIdx.x / " + number(team_) + " * " + shared_stride() + ";");
        else
          line("char* local = scratch + ((tn_i64)blockIdx.x * " + teams + " + threadIdx.x / " +
               number(team_) + ") * scratch_stride;");
        begun = true;
      }
      line(memory + "* " + pointer(b) + " = (" + memory + "*)local;");
      line("local += " + room(buffer) + ";");
    }
  }
  // Bytes of a local, as jit/schedule_cuda.cc counts them.
  std::string room(const Buffer& local) const {
    return "(" + extent(local.length) + " * " + number(size_of(local.type)) + " + 15) / 16 * 16";
  }
  std::string shared_stride() const {
    std::string sum;
    for (const Buffer& buffer : k_.buffers)
      if (buffer.role == Buffer::Role::local) sum += (sum.empty() ? "(" : " + ") + room(buffer);
    return sum + ")";
  }

  // ---- loops ----

  struct Range {
    std::string begin, end;
  };
  Range range(const Axis& axis) {
    Range r{"0", axis.of == kNoRef ? extent(axis.extent) : ""};
    if (axis.of != kNoRef) {
      const auto& [by, all] = tiles_.at(axis.of);
      r.begin = variable(axis.of) + " * " + number(by);
      r.end = "tn_minimum((tn_ix)(" + variable(axis.of) + " * " + number(by) + " + " + number(by) +
              "), (tn_ix)(" + all + "))";
    }
    if (axis.by > 0) {
      tiles_[axis.var] = {axis.by, r.end};
      r.begin = r.begin == "0" ? "0" : "(" + r.begin + ") / " + number(axis.by);
      r.end = "(" + r.end + " + " + number(axis.by - 1) + ") / " + number(axis.by);
    }
    return r;
  }
  // Axes [0, count) one after the other, then `body`.
  void nest(const std::vector<Axis>& axes, size_t count, const std::function<void()>& body) {
    for (size_t a = 0; a < count; ++a) {
      const Range r = range(axes[a]);
      const std::string var = variable(axes[a].var);
      loop_variable_.insert(axes[a].var);
      open("for (tn_ix " + var + " = " + r.begin + "; " + var + " < " + r.end + "; ++" + var + ")");
    }
    body();
    for (size_t a = 0; a < count; ++a) close();
  }

  // A simd loop of a team, or of the one thread it has; `tail` is done for each lane after the body.
  void simd_loop(const Stmt& s, const std::function<void()>& tail) {
    nest(s.axes, s.axes.size() - 1, [&] {
      const Axis& axis = s.axes.back();
      const Range r = range(axis);
      const std::string var = variable(axis.var);
      loop_variable_.insert(axis.var);
      const int step = team_ * vector_;
      const std::string first = team_ > 1 ? vector_ > 1 ? "lane * " + number(vector_) : "lane" : "0";
      if (s_.chunks > 0) {
        line("#pragma unroll");
        open("for (int c = 0; c < " + number(s_.chunks) + "; ++c)");
        line("const tn_ix " + var + " = (tn_ix)c * " + number(step) + " + " + first + ";");
        open("if (" + var + " < " + r.end + ")");
      } else {
        const std::string begin = r.begin == "0" ? first : first == "0" ? r.begin : r.begin + " + " + first;
        open("for (tn_ix " + var + " = " + begin + "; " + var + " < " + r.end + "; " + var +
             " += " + number(step) + ")");
      }
      enter_lanes(axis);
      emit_lanes(s.body, tail, s.yields);
      leave_lanes();
      if (s_.chunks > 0) close();
      close();
    });
  }

  std::string identity(OpId fold, DType t) const {
    const auto v = combine_identity(fold, t);
    TENON_CHECK(v, std::string(op(fold).name) + " has no identity");
    return cuda_literal(compute_type(t), *v);
  }

  // ---- what stands between statements ----

  void emit_control(const Stmt& s) override { s.kind == K::loop ? emit_loop(s) : emit_reduce(s); }

  void declare(Ref ref, bool lanes, const std::string& name, const std::string& first) {
    if (lanes)
      line(type(ref) + " " + name + "[" + number(vector_) + "]; TN_EACH " + name + "[v] = " + first + ";");
    else
      line(type(ref) + " " + name + " = " + first + ";");
  }

  void emit_loop(const Stmt& s) {
    if (s.simd) return simd_loop(s, {});
    const bool lanes = simd_ != kNoRef;
    for (const Stmt& inner : s.body)
      if (inner.kind == K::scan)
        declare(inner.result, lanes, accumulator(inner.result), identity(inner.op, inner.type));
    nest(s.axes, s.axes.size(), [&] {
      if (lanes) return emit_lanes(s.body, {});
      for (const Stmt& inner : s.body) emit_uniform(inner);
    });
  }

  void emit_reduce(const Stmt& s) {
    const bool lanes = simd_ != kNoRef;  // then it folds for each lane
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
      simd_loop(s, [&] {
        if (whole_) return fold("");
        open("if (v < count)");
        fold("");
        close();
      });
    } else {
      nest(s.axes, s.axes.size(), [&] {
        if (lanes) return emit_lanes(s.body, [&] { fold("[v]"); }, s.yields);
        for (const Stmt& inner : s.body) emit_uniform(inner);
        fold("");
      });
    }
    if (lanes) return;
    for (size_t r = 0; r < s.results.size(); ++r) {
      const std::string t = type(s.results[r]), a = accumulator(s.results[r]);
      std::string whole = a;
      if (s.simd && team_ > 1)
        whole = "tn_team_fold<" + number(team_) + ">(" + a + ", [](" + t + " a, " + t + " b) { return " +
                fold_call(s.combine[r], "a", "b") + "; }, slots, turn)";
      line("const " + t + " " + value(s.results[r]) + " = " + whole + ";");
    }
  }

  std::map<Ref, std::pair<int64_t, std::string>>
      tiles_;  // by the variable that counts them: elements of one and of all
};

// 1 + erf(z) as erfc(-z): it keeps its digits where the sum would cancel, and costs less. Sums that nobody reads any more are
// the compiler's to drop.
void use_erfc(Kernel& k) {
  std::map<Ref, Ref> erf_of;  // by result
  std::set<Ref> ones;
  auto walk = [&](auto& self, Block& block) -> void {
    for (size_t i = 0; i < block.size(); ++i) {
      self(self, block[i].body);
      Stmt& s = block[i];
      if (s.kind == K::constant && is_float(s.type) &&
          (s.literal.is_int ? s.literal.i == 1 : s.literal.d == 1))
        ones.insert(s.result);
      if (s.kind != K::op) continue;
      if (s.op == ops::erf) erf_of[s.result] = s.args[0];
      if (s.op != ops::add) continue;
      const size_t one = ones.count(s.args[0]) ? 0 : 1;
      const auto erf = erf_of.find(s.args[1 - one]);
      if (!ones.count(s.args[one]) || erf == erf_of.end()) continue;
      Stmt negative{
          .kind = K::op, .op = ops::neg, .type = s.type, .result = k.add_ref(s.type), .args = {erf->second}};
      s.op = ops::erfc;
      s.args = {negative.result};
      block.insert(block.begin() + static_cast<long>(i++), std::move(negative));
    }
  };
  walk(walk, k.body);
}

}  // namespace

std::string emit_cuda(const Kernel& kernel, const CudaSchedule& schedule) {
  Kernel expanded = kernel;
  if (schedule.approximate) use_erfc(expanded);
  expand_math(expanded, cuda_spells);
  return CudaEmitter(expanded, schedule).run();
}

std::string cuda_settings(const CudaSchedule& schedule) {
  return "#define TN_WIDE " + std::to_string(schedule.wide) + "\n#define TN_APPROXIMATE " +
         std::to_string(schedule.approximate) + "\n";
}

std::string cuda_source(const Kernel& kernel, const CudaSchedule& schedule) {
  return cuda_settings(schedule) + std::string(cuda_primitives()) + std::string(cuda_prelude()) +
         emit_cuda(kernel, schedule);
}

}  // namespace tenon::jit
