// See emit_cuda.h. A value that depends on the axis of a simd loop is one per lane: within TN_EACH, which repeats what
// follows for the `vector` elements of a thread. Loads of elements that lie together come before it as vectors, stores
// after it. Everything else is a scalar that all threads of a team compute alike.
#include "jit/emit_cuda.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "jit/cuda_text.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;
using Form = CudaSchedule::Form;
using Locals = CudaSchedule::Locals;

class CudaEmitter {
 public:
  CudaEmitter(const Kernel& kernel, const CudaSchedule& schedule) : k_(kernel), s_(schedule) {
    varies_.assign(k_.types.size(), false);
    array_.assign(k_.types.size(), false);
    vector_ = s_.form == Form::row || par().simd ? s_.vector : 1;
    team_ = s_.form == Form::row ? s_.team : 1;
    whole_ = s_.whole || vector_ == 1;
  }

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

  // ---- text ----

  void line(const std::string& text) {
    text_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + text + "\n";
  }
  void open(const std::string& text) {
    line(text + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }
  static std::string number(int64_t n) { return std::to_string(n); }
  std::string pointer(size_t buffer) const {
    return (k_.buffers[buffer].role == Buffer::Role::local ? "t" : "p") + std::to_string(buffer);
  }
  static std::string variable(Ref ref) { return "j" + std::to_string(ref); }
  static std::string value(Ref ref) { return "v" + std::to_string(ref); }
  std::string type(Ref ref) const { return std::string(cuda_type(compute_type(k_.types[ref]))); }

  // As it is read here: within TN_EACH what differs from lane to lane may stand in an array.
  std::string use(Ref ref) const {
    return loop_variable_.count(ref) ? variable(ref) : value(ref) + (array_[ref] ? "[v]" : "");
  }

  std::string extent(const Extent& e) const {
    if (e.size < 0) return cuda_index(e.factor);
    return e.factor == 1 ? "s" + number(e.size) : cuda_index(e.factor) + " * s" + number(e.size);
  }

  // ---- addresses ----

  enum class Reach { same, together, apart };  // from lane to lane
  Reach reach(const Stmt& s) const {
    int steps = 0;
    bool apart = false;
    for (const Term& t : s.address) {
      if (t.var == kNoRef) continue;
      if (t.var == simd_) {
        ++steps;
        apart = apart || t.size >= 0 || t.factor != 1;
      } else if (varies_[t.var]) {
        apart = true;
      }
    }
    return apart || steps > 1 ? Reach::apart : steps ? Reach::together : Reach::same;
  }

  // each: of lane v.
  std::string address(const Stmt& s, bool each) const {
    std::string sum;
    for (const Term& t : s.address) {
      std::string product;
      if (t.factor != 1 || (t.size < 0 && t.var == kNoRef)) product = cuda_index(t.factor);
      auto times = [&](const std::string& factor) { product += (product.empty() ? "" : " * ") + factor; };
      if (t.size >= 0) times("s" + number(t.size));
      if (t.var != kNoRef) {
        if (t.var == simd_)
          times(each && vector_ > 1 ? "(" + variable(t.var) + " + v)" : variable(t.var));
        else
          times(loop_variable_.count(t.var) ? variable(t.var) : "(tn_ix)" + use(t.var));
      }
      sum += (sum.empty() ? "" : " + ") + product;
    }
    return sum.empty() ? "0" : sum;
  }

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
    for (const auto& [stmt, kept] : kept_loads_)
      if (kept.first)
        line("tn_vec<" + std::string(cuda_memory_type(k_.buffers[stmt->buffer].type)) + ", " +
             number(vector_) + "> " + kept.name + "[" + number(s_.chunks) + "];");
    if (s.simd) {
      enter_lanes(s.axes.back());
      emit_lanes(s.body, {});
      simd_ = kNoRef;
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

  void enter_lanes(const Axis& axis) {
    simd_ = axis.var;
    varies_[axis.var] = true;
    if (!whole_)
      line("const int count = tn_count(" + variable(axis.var) + ", " + extent(axis.extent) + ", " +
           number(vector_) + ");");
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
      simd_ = kNoRef;
      if (s_.chunks > 0) close();
      close();
    });
  }

  std::string identity(OpId fold, DType t) const {
    const auto v = combine_identity(fold, t);
    TENON_CHECK(v, std::string(op(fold).name) + " has no identity");
    return cuda_literal(compute_type(t), *v);
  }
  static std::string fold_call(OpId fold, const std::string& a, const std::string& b) {
    return "tn_" + std::string(op(fold).name) + "(" + a + ", " + b + ")";
  }
  static std::string accumulator(Ref ref) { return "a" + std::to_string(ref); }

  // ---- statements that all threads of a team do alike ----

  void emit_uniform(const Stmt& s) {
    switch (s.kind) {
      case K::load:
        return line("const " + type(s.result) + " " + value(s.result) + " = tn_get(" +
                    pointer(static_cast<size_t>(s.buffer)) + "[" + address(s, false) + "]);");
      case K::store: {
        const std::string put = "tn_put(" + pointer(static_cast<size_t>(s.buffer)) + "[" + address(s, false) +
                                "], " + use(s.args[0]) + ");";
        return line(team_ > 1 ? "if (lane == 0) " + put : put);
      }
      case K::loop: return emit_loop(s);
      case K::reduce: return emit_reduce(s);
      case K::scan: return emit_scan(s);
      case K::par: TENON_CHECK(false, "par inside the par nest"); return;
      default: return line(scalar(s));
    }
  }

  std::string scalar(const Stmt& s) const {
    return "const " + type(s.result) + " " + value(s.result) + " = " + expression(s) + ";";
  }
  std::string expression(const Stmt& s) const {
    switch (s.kind) {
      case K::op: {
        std::string call = "tn_" + std::string(op(s.op).name) + "(";
        for (size_t i = 0; i < s.args.size(); ++i) call += (i ? ", " : "") + use(s.args[i]);
        return call + ")";
      }
      case K::cast: {
        if (s.type == DType::bf16) return "tn_round_bf16(" + use(s.args[0]) + ")";
        if (s.type == DType::f16) return "tn_round_f16(" + use(s.args[0]) + ")";
        return "tn_cast<" + std::string(cuda_type(s.type)) + ">(" + use(s.args[0]) + ")";
      }
      case K::bitcast: return "tn_bitcast<" + std::string(cuda_type(s.type)) + ">(" + use(s.args[0]) + ")";
      case K::constant: return cuda_literal(compute_type(s.type), s.literal);
      case K::size: return "(tn_i64)s" + number(s.size);
      case K::index:
        return "(tn_i64)" + (s.args[0] == simd_ && vector_ > 1 ? "(" + variable(s.args[0]) + " + v)"
                                                               : variable(s.args[0]));
      default: break;
    }
    TENON_CHECK(false, "not a scalar statement");
    return "";
  }

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

  void emit_scan(const Stmt& s) {
    const std::string a = accumulator(s.result);
    line(a + " = " + fold_call(s.op, a, use(s.args[0])) + ";");
    line("const " + type(s.result) + " " + value(s.result) + " = " + a + ";");
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

  // ---- statements for the lanes of a thread ----

  bool reads_lanes(const Stmt& s) const {
    auto lane = [&](Ref r) { return varies_[r]; };
    if (std::ranges::any_of(s.args, lane)) return true;
    return std::ranges::any_of(s.address, [&](const Term& t) { return t.var != kNoRef && varies_[t.var]; });
  }

  // Statements up to the next loop, or to a load of what one of them has stored.
  static std::vector<std::vector<const Stmt*>> segments(const Block& block) {
    std::vector<std::vector<const Stmt*>> list(1);
    std::set<int> stored;
    for (const Stmt& s : block) {
      const bool loop = !s.axes.empty() || s.kind == K::scan;
      if (loop || (s.kind == K::load && stored.count(s.buffer))) {
        list.emplace_back();
        stored.clear();
      }
      list.back().push_back(&s);
      if (s.kind == K::store) stored.insert(s.buffer);
      if (loop) list.emplace_back();
    }
    return list;
  }

  // yields: what `tail` reads.
  void emit_lanes(const Block& block, const std::function<void()>& tail,
                  const std::vector<Ref>& yields = {}) {
    const auto list = segments(block);
    for (size_t i = 0; i < list.size(); ++i) {
      // What later segments read stands in arrays.
      std::set<Ref> later;
      if (i + 1 < list.size()) later.insert(yields.begin(), yields.end());
      for (size_t n = i + 1; n < list.size(); ++n)
        for (const Stmt* s : list[n]) collect_uses(*s, later);
      const bool last = i + 1 == list.size();
      if (list[i].size() == 1 && !list[i][0]->axes.empty()) {
        emit_uniform(*list[i][0]);
      } else if (list[i].size() == 1 && list[i][0]->kind == K::scan) {
        emit_lane_scan(*list[i][0]);
      } else {
        emit_segment(list[i], later, last ? tail : std::function<void()>());
        continue;
      }
      if (last && tail) emit_segment({}, {}, tail);
    }
  }

  void emit_lane_scan(const Stmt& s) {
    const std::string a = accumulator(s.result);
    varies_[s.result] = array_[s.result] = true;
    line(type(s.result) + " " + value(s.result) + "[" + number(vector_) + "];");
    line("TN_EACH " + value(s.result) + "[v] = " + a + "[v] = " + fold_call(s.op, a + "[v]", use(s.args[0])) +
         ";");
  }

  std::string count_argument() const { return whole_ ? "" : ", count"; }

  void emit_segment(const std::vector<const Stmt*>& list, const std::set<Ref>& later,
                    const std::function<void()>& tail) {
    std::vector<const Stmt*> each, stores;
    for (const Stmt* s : list) {
      if (s->kind == K::store) {
        each.push_back(s);
        continue;
      }
      const bool lanes = reads_lanes(*s) || (s->kind == K::index && s->args[0] == simd_);
      if (!lanes) {
        emit_uniform(*s);
        continue;
      }
      varies_[s->result] = true;
      if (s->kind == K::load && reach(*s) == Reach::together) load_vector(*s);
      each.push_back(s);
    }
    for (const Stmt* s : each)
      if (s->kind != K::store && later.count(s->result)) {
        array_[s->result] = true;
        line(type(s->result) + " " + value(s->result) + "[" + number(vector_) + "];");
      }
    for (const Stmt* s : each)
      if (s->kind == K::store && reach(*s) == Reach::together && !in_registers(*s))
        line("tn_vec<" + std::string(cuda_memory_type(k_.buffers[s->buffer].type)) + ", " + number(vector_) +
             "> " + stored(*s) + ";");
    if (each.empty() && !tail) return;
    open("TN_EACH");
    for (const Stmt* s : each) emit_each(*s);
    if (tail) tail();
    close();
    for (const Stmt* s : each)
      if (s->kind == K::store && reach(*s) == Reach::together && !in_registers(*s))
        line("tn_store<" + number(vector_) + ">(" + pointer(static_cast<size_t>(s->buffer)) + " + (" +
             address(*s, false) + ")" + ", " + stored(*s) + count_argument() + ");");
  }

  bool in_registers(const Stmt& s) const {
    return s_.locals == Locals::registers && k_.buffers[s.buffer].role == Buffer::Role::local;
  }
  std::string stored(const Stmt& s) {
    auto [it, is_new] = stored_.try_emplace(&s, static_cast<int>(stored_.size()));
    return "w" + number(it->second);
  }
  // The vector that a load of neighbours reads.
  std::string loaded(const Stmt& s) const {
    const auto kept = kept_loads_.find(&s);
    return kept == kept_loads_.end() ? "x" + std::to_string(s.result) : kept->second.name + "[c]";
  }
  void load_vector(const Stmt& s) {
    if (in_registers(s)) return;
    const auto kept = kept_loads_.find(&s);
    if (kept != kept_loads_.end() && !kept->second.first) return;
    const std::string load = " = tn_load<" + number(vector_) + ">(" + pointer(static_cast<size_t>(s.buffer)) +
                             " + (" + address(s, false) + ")" + count_argument() + ");";
    if (kept != kept_loads_.end())
      line(loaded(s) + load);
    else
      line("const tn_vec<" + std::string(cuda_memory_type(k_.buffers[s.buffer].type)) + ", " +
           number(vector_) + "> " + loaded(s) + load);
  }

  void emit_each(const Stmt& s) {
    const std::string at = in_registers_index();
    if (s.kind == K::store) {
      const std::string what = use(s.args[0]), buffer = pointer(static_cast<size_t>(s.buffer));
      if (in_registers(s)) return line("tn_put(" + buffer + "[" + at + "], " + what + ");");
      if (reach(s) == Reach::together) return line("tn_put(" + stored(s) + ".at[v], " + what + ");");
      return line((whole_ ? "" : "if (v < count) ") + std::string("tn_put(") + buffer + "[" +
                  address(s, true) + "], " + what + ");");
    }
    std::string computed;
    if (s.kind != K::load)
      computed = expression(s);
    else if (in_registers(s))
      computed = "tn_get(" + pointer(static_cast<size_t>(s.buffer)) + "[" + at + "])";
    else if (reach(s) == Reach::together)
      computed = "tn_get(" + loaded(s) + ".at[v])";
    else
      computed = (whole_ ? "" : "v >= count ? " + type(s.result) + "(0) : ") + std::string("tn_get(") +
                 pointer(static_cast<size_t>(s.buffer)) + "[" + address(s, true) + "])";
    line((array_[s.result] ? value(s.result) + "[v]" : "const " + type(s.result) + " " + value(s.result)) +
         " = " + computed + ";");
  }
  std::string in_registers_index() const { return vector_ > 1 ? "c * " + number(vector_) + " + v" : "c"; }

  // ---- loads that several loops over the row repeat ----

  struct Kept {
    std::string name;
    bool first;
  };
  void find_kept_loads() {
    std::map<std::string, std::vector<const Stmt*>> same;
    std::vector<std::string> order;
    for (const Stmt& loop : par().body) {
      if (!loop.simd) continue;
      simd_ = loop.axes.back().var;
      varies_[simd_] = true;
      std::set<std::string> here;
      for (const Stmt& s : loop.body) {
        if (s.kind != K::load || k_.buffers[s.buffer].role != Buffer::Role::in || reach(s) != Reach::together)
          continue;
        std::string key = std::to_string(s.buffer);
        bool outside = true;
        for (const Term& t : s.address) {
          key += " " + std::to_string(t.factor) + "," + std::to_string(t.size) + ",";
          key += t.var == simd_ ? "lane" : t.var == kNoRef ? "" : std::to_string(t.var);
          for (const Stmt& other : loop.body) outside = outside && (t.var == kNoRef || other.result != t.var);
        }
        if (!outside) continue;
        if (same[key].empty()) order.push_back(key);
        same[key].push_back(&s);
      }
    }
    simd_ = kNoRef;
    int number = 0;
    for (const std::string& key : order) {
      const auto& list = same[key];
      if (list.size() < 2) continue;
      const std::string name = "k" + std::to_string(number++);
      for (const Stmt* s : list) kept_loads_[s] = {name, s == list.front()};
    }
  }

  const Kernel& k_;
  const CudaSchedule& s_;
  std::string text_;
  int depth_ = 1;
  int vector_ = 1, team_ = 1;
  bool whole_ = true;
  Ref simd_ = kNoRef;
  std::vector<bool> varies_;  // from lane to lane
  std::vector<bool> array_;   // stands in an array of all lanes
  std::set<Ref> loop_variable_;
  std::map<Ref, std::pair<int64_t, std::string>>
      tiles_;  // by the variable that counts them: elements of one and of all
  std::map<const Stmt*, int> stored_;
  std::map<const Stmt*, Kept> kept_loads_;
};

}  // namespace

std::string emit_cuda(const Kernel& kernel, const CudaSchedule& schedule) {
  Kernel expanded = kernel;
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
