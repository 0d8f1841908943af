// emit_llvm: a kernel as the text of one LLVM function, the counterpart of emit_cuda. Scalar instructions are
// templates ($0 $T $R ..., the legend is in llvm_text.h). llvm_function.h does control flow, hoisting and
// value numbering.
//
//   define void @NAME(ptr %buffers, ptr %sizes, ptr %scratch, i64 %begin, i64 %end)
//
// Inside a simd axis, a value is a vector of W = lanes(isa) elements whatever its dtype, unless it does not
// depend on the axis: then it is a scalar, computed before the loop. An axis is split into a loop over full
// vectors and a masked tail. No pointer is noalias: a buffer may be reused in place if every element is read
// before it is written. Tested by tests/unit/jit/llvm/emit_test.cc and tests/golden/jit/*.tn.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "jit/analysis/prefetch.h"
#include "jit/kernel/walk.h"
#include "jit/llvm/compiler.h"
#include "jit/llvm/emit_ops.h"
#include "jit/schedule/schedule.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

class Emitter final : OpEmitter {
 public:
  Emitter(const Kernel& kernel, Isa isa) : OpEmitter(kernel, isa) {}

  std::string run() {
    for (const char* name : {"buffers", "sizes", "scratch", "begin", "end"}) {
      f_.parameter(name);
      f_.unique(name);
    }
    for (size_t i = 0; i < k_.sizes.size(); ++i)
      sizes_.push_back(Int(argument("i64", "%sizes", "i64", i, k_.sizes[i])));
    Int scratch = 0;
    int argument_index = 0;
    for (const Buffer& b : k_.buffers) {
      if (b.role != Buffer::Role::local) {
        bases_.push_back(argument("ptr", "%buffers", "ptr", argument_index++, b.name));
        continue;
      }
      bases_.push_back(f_.pure("getelementptr i8, ptr %scratch, i64 " + scratch.text, b.name));
      Int bytes = f_.add(f_.mul(extent(b.length), size_of(b.type)), 63);
      scratch = f_.add(scratch, bytes.known ? Int(*bytes.known / 64 * 64)
                                            : Int(f_.pure("and i64 " + bytes.text + ", -64")));
    }
    if (can_fault(k_)) fault_ = argument("ptr", "%buffers", "ptr", argument_index, "fault");
    prefetches_ = prefetches(k_);
    emit_par(k_.body[0]);
    return "define void @" + k_.name + "(ptr %buffers, ptr %sizes, ptr %scratch, i64 %begin, i64 %end) " +
           attributes() + " {\n" + f_.finish() + "}\n" + host_functions();
  }

 private:
  std::string attributes() const {
    switch (isa_) {
      case Isa::sse2: return "nounwind \"target-cpu\"=\"x86-64\"";
      case Isa::avx2: return "nounwind \"target-cpu\"=\"x86-64-v3\"";
      case Isa::avx512: return "nounwind \"target-cpu\"=\"x86-64-v4\" \"prefer-vector-width\"=\"512\"";
    }
    return "";
  }

  std::string argument(const std::string& type, const std::string& array, const std::string& element,
                       size_t index, const std::string& name) {
    std::string at = array;
    if (index)
      at = f_.entry("getelementptr " + element + ", ptr " + array + ", i64 " + std::to_string(index),
                    name + ".at");
    return f_.entry("load " + type + ", ptr " + at + ", align 8", name);
  }

  // ---- loops ----

  // Whether the block has a load whose address does not contain the variable, which is worth hoisting out of
  // the loop, or a check, whose operands may not depend on the variable either.
  bool reads_beside(const Block& block, Ref var) const {
    return find_stmt(block, [&](const Stmt& s) {
      return s.fault != 0 || (s.kind == Stmt::Kind::load && !steps_along(s, var));
    });
  }

  // The values that the body of a simd reduce yields for one vector. Empty for other loops.
  std::vector<std::string> emit_vector(const Stmt& s) {
    emit_block(s.body);
    std::vector<std::string> values;
    for (Ref r : s.yields) values.push_back(vector(refs_[r]));
    return values;
  }

  // The range [begin, end) of a loop variable.
  std::pair<Int, Int> range(const Axis& axis) {
    Int begin = 0, end = 0;
    if (axis.of == kNoRef) {
      end = extent(axis.extent);
    } else {
      const auto& [by, all] = tiles_.at(axis.of);
      begin = f_.mul(Int(refs_[axis.of].text), by);
      end = f_.min(f_.add(begin, by), all);
    }
    if (axis.counts_tiles()) {
      const Int by = extent(axis.by);
      tiles_.insert_or_assign(axis.var, std::pair(by, end));
      begin = f_.divide(begin, by);
      end = f_.divide(f_.add(end, f_.sub(by, 1)), by);
    }
    return {begin, end};
  }

  // The base of a prefetched buffer, relative to the current row; selected before all loops. If rows are too
  // long for the cache, the base of what the loop has just read is used instead.
  std::string prefetch_base(const Prefetch& p, const Stmt& loop) {
    const Buffer& b = k_.buffers[p.buffer];
    const auto first = std::ranges::find(prefetches_, Buffer::Role::in,
                                         [&](const Prefetch& q) { return k_.buffers[q.buffer].role; });
    const std::string& present =
        b.role == Buffer::Role::in || first == prefetches_.end() ? bases_[p.buffer] : bases_[first->buffer];
    std::string wanted = bases_[p.buffer];
    for (const Term& t : p.step)
      wanted = offset_pointer(memory_type(b.type), wanted,
                              t.size < 0 ? Int(t.factor) : f_.mul(sizes_[t.size], t.factor));
    const std::string fits = f_.pure(
        "icmp sle i64 " + extent(loop.axes[0].extent).text + ", " + std::to_string(kLongestRowAhead), "fits");
    return f_.pure("select i1 " + fits + ", ptr " + wanted + ", ptr " + present, b.name + ".ahead");
  }

  // Emits one prefetch per cache line of the `count` vectors from `base`.
  void emit_prefetches(const Stmt& s, const Int& base, int count) {
    for (const Prefetch& p : prefetches_) {
      if (p.loop != &s) continue;
      const std::string ahead = prefetch_base(p, s);
      const std::string kept = std::exchange(bases_[p.buffer], ahead);
      const int line = 64 / size_of(k_.buffers[p.buffer].type);
      for (int u = 0; u < count; ++u) {
        if (u * w_ % line) continue;
        simd_ = {s.axes[0].var, f_.add(base, int64_t{u} * w_), false, 0};
        f_.statement("call void @llvm.prefetch.p0(ptr " + place(p.buffer, p.address).pointer +
                     ", i32 0, i32 3, i32 1)");
      }
      bases_[p.buffer] = kept;
    }
  }

  // Like emit_vector, for `count` vectors, the first at `base`.
  std::vector<std::vector<std::string>> emit_vectors(const Stmt& s, const Int& base, int count) {
    const Ref var = s.axes.back().var;
    auto at = [&](int u) { return Simd{var, f_.add(base, int64_t{u} * w_), false, 0}; };
    std::vector<std::vector<std::string>> values(count);
    const bool nested = std::ranges::any_of(s.body, [](const Stmt& i) { return !i.axes.empty(); });
    if (nested || count == 1) {
      for (int u = 0; u < count; ++u) {
        simd_ = at(u);
        values[u] = emit_vector(s);
      }
      return values;
    }
    std::vector<std::vector<Value>> refs(count, refs_);
    for (const Stmt& inner : s.body)
      for (int u = 0; u < count; ++u) {
        simd_ = at(u);
        std::swap(refs_, refs[u]);
        emit_stmt(inner);
        std::swap(refs_, refs[u]);
      }
    for (int u = 0; u < count; ++u)
      for (Ref r : s.yields) values[u].push_back(vector(refs[u][r]));
    return values;
  }

  // Whether the loop adds up floats. The error of a sum grows with the number of additions one after the other, most of all if the
  // addends are equal and round alike. So each accumulator adds blocks up.
  bool adds_floats(const Stmt& s) const {
    for (size_t r = 0; r < s.combine.size(); ++r)
      if (s.combine[r] == ops::add && is_float(k_.types[s.yields[r]])) return true;
    return false;
  }

  // Emits elements [begin, end) of the simd axis of `s`: `at_once` full vectors a step up to `full`, then the
  // rest one masked vector at a time; in a short body, full vectors of the rest have no masks. carried: the
  // accumulators, results of vector 0 first. sure: begin < end is known.
  void simd_axis(const Stmt& s, const Int& begin, const Int& full, const Int& end, int at_once, bool sure,
                 std::vector<Carried>& carried) {
    const Simd before = simd_;
    const Axis& axis = s.axes.back();
    const size_t results = s.combine.size();
    const std::string name = hint(axis.var);
    const auto type_of = [&](size_t r) { return compute_type(k_.types[s.yields[r]]); };
    auto fold = [&](size_t u, const std::vector<std::string>& values, const std::string& keep) {
      for (size_t r = 0; r < results; ++r) {
        Carried& c = carried[u % s.unroll * results + r];
        std::string next = combine(s.combine[r], type_of(r), w_, c.value, values[r], c.hint);
        c.value = keep.empty() ? next : select(keep, c.type, next, c.value, c.hint);
      }
    };
    const auto step = [&](const std::string& index, int vectors) {
      if (vectors == at_once) emit_prefetches(s, Int(index), vectors);
      auto values = emit_vectors(s, Int(index), vectors);
      for (int u = 0; u < vectors; ++u) fold(u, values[u], "");
      return f_.add(Int(index), int64_t{w_} * vectors);
    };
    const auto whole_steps = [&](const Int& from, const Int& to, int vectors) {
      const auto one_step = [&](const std::string& index) { return step(index, vectors); };
      const int64_t block = kStepsOfBlock * w_ * vectors;
      if (!adds_floats(s) || f_.sub(to, from).known.value_or(block + 1) <= block)
        return f_.loop(name, from, to, false, carried, one_step);
      f_.loop(name + ".block", from, to, false, carried, [&](const std::string& index) -> Int {
        const Int stop = f_.min(f_.add(Int(index), block), to);
        const std::vector<Carried> totals = carried;
        for (size_t i = 0; i < carried.size(); ++i)
          carried[i].value = identity(s.combine[i % results], type_of(i % results), w_);
        f_.loop(name, Int(index), stop, true, carried, one_step);
        for (size_t i = 0; i < carried.size(); ++i)
          carried[i].value = combine(s.combine[i % results], type_of(i % results), w_, totals[i].value,
                                     carried[i].value, totals[i].hint);
        return stop;
      });
    };
    const auto masked_rest = [&](const Int& from, size_t accumulator) {
      f_.when_less(name + ".tail", from, end, true, carried, [&] {
        simd_ = {axis.var, from, true, f_.sub(end, from)};
        const std::vector<std::string> values = emit_vector(s);
        fold(accumulator, values, results ? mask() : "");
      });
    };
    // Emits full vectors [u, at_once - 1) of the rest, a copy of the body for each accumulator.
    std::function<void(int)> whole_rest = [&](int u) {
      if (u == at_once - 1) return;
      const Int from = f_.add(full, int64_t{u} * w_);
      f_.when_less(name + ".rest", f_.add(from, w_ - 1), end, false, carried, [&] {
        simd_ = {axis.var, from, false, 0};
        fold(u, emit_vector(s), "");
        whole_rest(u + 1);
      });
    };
    const auto parts = [&] {
      f_.split([&] {
        whole_steps(begin, full, at_once);
        const Int vectors = at_once == 1 ? full : f_.sub(end, f_.remainder(f_.sub(end, full), w_));
        if (at_once == 1) {
          masked_rest(full, 0);
        } else if (results == 0 && s.body.size() <= kMostForThreeLoops) {
          whole_steps(full, vectors, 1);
          masked_rest(vectors, 0);
        } else if (s.unroll > 1) {
          whole_rest(0);
          masked_rest(vectors, at_once - 1);
        } else {
          f_.loop(name + ".tail", full, end, false, carried, [&](const std::string& index) -> Int {
            simd_ = {axis.var, Int(index), true, f_.min(f_.sub(end, Int(index)), w_)};
            const std::vector<std::string> values = emit_vector(s);
            fold(0, values, results ? mask() : "");
            return f_.add(Int(index), w_);
          });
        }
      });
    };
    if (sure || !reads_beside(s.body, axis.var))
      parts();
    else
      f_.when_less(name + ".some", begin, end, false, carried, parts);
    simd_ = before;
  }

  void whole_axis(const Stmt& s, std::vector<Carried>& carried) {
    const Axis& axis = s.axes.back();
    const auto [begin, end] = range(axis);
    const int at_once = vectors_at_once(s);
    const Int rest = f_.remainder(f_.sub(end, begin), int64_t{w_} * at_once);
    simd_axis(s, begin, f_.sub(end, rest), end, at_once, axis.of != kNoRef, carried);
  }

  // Emits axes [from, count) as nested loops over scalars, then `body`.
  void nest(const std::vector<Axis>& axes, size_t from, size_t count, std::vector<Carried>& carried,
            const std::function<void()>& body) {
    if (from == count) return body();
    const auto [begin, end] = range(axes[from]);
    f_.loop(hint(axes[from].var), begin, end, axes[from].of != kNoRef, carried,
            [&](const std::string& index) {
              define(axes[from].var, index, 1);
              nest(axes, from + 1, count, carried, body);
              return f_.add(Int(index), 1);
            });
  }

  int width() const { return simd_.var == kNoRef ? 1 : w_; }
  std::string at_width(const Value& v) { return width() == 1 ? v.text : vector(v); }
  std::string identity(OpId fold, DType type, int lanes) const {
    auto value = combine_identity(fold, type);
    TENON_CHECK(value, std::string(op(fold).name) + " has no identity");
    return constant_at_lanes(register_type(type), literal(type, *value), lanes);
  }

  static bool alone_in_buffer(const Stmt& store, const Block& block) {
    return std::ranges::count(block, store.buffer, &Stmt::buffer) == 1;
  }

  // Emits a loop within lanes whose loads jump from lane to lane but step by one along the loop. Takes W
  // steps at a time: loads each square of W x W elements by rows and transposes it. Likewise stores by rows
  // what a scan writes. carried: values of its scans. False: nothing is emitted.
  bool emit_turned(const Stmt& s, std::vector<Carried>& carried) {
    if (simd_.var == kNoRef || simd_.masked || s.axes.size() != 1) return false;
    const Axis& axis = s.axes[0];
    std::vector<const Stmt*> loads, stores;
    std::set<Ref> computed;
    for (const Stmt& inner : s.body) {
      each_result(inner, [&](Ref r) { computed.insert(r); });
      if (!crosses(inner, axis.var, computed)) continue;
      if (inner.kind == Stmt::Kind::load)
        loads.push_back(&inner);
      else if (!carried.empty() && alone_in_buffer(inner, s.body))
        stores.push_back(&inner);
    }
    if (loads.empty() && stores.empty()) return false;
    const auto [begin, end] = range(axis);
    const Int full = f_.sub(end, f_.remainder(f_.sub(end, begin), w_));
    f_.loop(hint(axis.var), begin, full, false, carried, [&](const std::string& index) {
      define(axis.var, index, 1);
      std::vector<std::vector<std::string>> squares;
      for (const Stmt* load : loads) squares.push_back(read_crossing(*load));
      for (const Stmt* store : stores) columns_[store];
      for (int step = 0; step < w_; ++step) {
        define(axis.var, f_.add(Int(index), step).text, 1);
        for (size_t l = 0; l < loads.size(); ++l) turned_[loads[l]] = squares[l][step];
        next_scan_ = 0;
        emit_block(s.body);
      }
      for (const Stmt* load : loads) turned_.erase(load);  // an enclosing loop loads others
      define(axis.var, index, 1);
      for (const Stmt* store : stores) write_crossing(*store, std::move(columns_.extract(store).mapped()));
      return f_.add(Int(index), w_);
    });
    f_.loop(hint(axis.var) + ".rest", full, end, false, carried, [&](const std::string& index) {
      define(axis.var, index, 1);
      next_scan_ = 0;
      emit_block(s.body);
      return f_.add(Int(index), 1);
    });
    return true;
  }

  void emit_loop(const Stmt& s) {
    std::vector<Carried> carried;
    if (s.simd) return nest(s.axes, 0, s.axes.size() - 1, carried, [&] { whole_axis(s, carried); });
    std::vector<Carried>* outer = std::exchange(scans_, &carried);
    for (const Stmt& inner : s.body)
      if (inner.kind == Stmt::Kind::scan) {
        DType type = compute_type(inner.type);
        carried.push_back(
            {at_lanes(register_type(type), width()), hint(inner.result), identity(inner.op, type, width())});
      }
    if (!emit_turned(s, carried))
      nest(s.axes, 0, s.axes.size(), carried, [&] {
        next_scan_ = 0;
        emit_block(s.body);
      });
    scans_ = outer;
  }

  void emit_scan(const Stmt& s) {
    Carried& c = (*scans_)[next_scan_++];
    DType type = compute_type(s.type);
    c.value = combine(s.op, type, width(), c.value, at_width(refs_[s.args[0]]), hint(s.result));
    define(s.result, c.value, width());
  }

  void emit_reduce(const Stmt& s) {
    TENON_CHECK(s.online.empty(), "online results are a GPU's");
    const size_t results = s.combine.size();
    const int lanes = s.simd ? w_ : width();
    const int unroll = s.simd ? s.unroll : 1;
    std::vector<DType> types;
    for (Ref r : s.results) types.push_back(compute_type(k_.types[r]));
    std::vector<Carried> carried;
    for (int u = 0; u < unroll; ++u)
      for (size_t r = 0; r < results; ++r)
        carried.push_back({at_lanes(register_type(types[r]), lanes), hint(s.results[r]),
                           identity(s.combine[r], types[r], lanes)});
    std::vector<Carried>* outer_scans = std::exchange(scans_, nullptr);
    const size_t next_scan = next_scan_;
    const auto body = [&] {
      if (s.simd) return whole_axis(s, carried);
      emit_block(s.body);
      for (size_t r = 0; r < results; ++r) {
        Carried& c = carried[r];
        c.value = combine(s.combine[r], types[r], lanes, c.value, at_width(refs_[s.yields[r]]), c.hint);
      }
    };
    const Axis& last = s.axes.back();
    if (!s.simd && s.axes.size() == 1 && last.of != kNoRef && !last.counts_tiles() &&
        tiles_.at(last.of).first.known.value_or(kUnrolledTile + 1) <= kUnrolledTile) {
      const auto [begin, end] = range(last);
      const int64_t by = *tiles_.at(last.of).first.known;
      const Int whole = f_.add(begin, by - 1);
      f_.when_less(hint(last.var) + ".whole", whole, end, false, carried, [&] {
        for (int64_t i = 0; i < by; ++i) {
          define(last.var, f_.add(begin, i).text, 1);
          body();
        }
      });
      f_.when_less(hint(last.var) + ".part", end, f_.add(begin, by), false, carried,
                   [&] { nest(s.axes, 0, 1, carried, body); });
    } else {
      nest(s.axes, 0, s.axes.size() - (s.simd ? 1 : 0), carried, body);
    }
    scans_ = outer_scans;
    next_scan_ = next_scan;
    for (size_t r = 0; r < results; ++r) {
      std::vector<std::string> values;
      for (int u = 0; u < unroll; ++u) values.push_back(carried[u * results + r].value);
      std::string value = fold_pairs(s.combine[r], types[r], lanes, values, hint(s.results[r]));
      if (s.simd) value = fold_halves(s.combine[r], types[r], value, hint(s.results[r]));
      define(s.results[r], value, s.simd ? 1 : lanes);
    }
  }

  // Emits the par nest as one range [begin, end). Divides once to find its variables, then counts them like
  // an odometer. A simd nest counts its last axis in vectors and computes all vectors of a row in one inner
  // loop.
  void emit_par(const Stmt& s) {
    std::vector<Carried> none;
    const size_t outer = s.axes.size() - (s.simd ? 1 : 0);  // axes of the odometer
    auto body = [&] { emit_block(s.body); };
    auto vectors = [&](const Int& first, const Int& last) {  // of the simd axis
      const Int n = extent(s.axes.back().extent), rest = f_.remainder(n, w_), stop = f_.mul(last, w_);
      const Int begin = f_.mul(first, w_), whole = f_.min(stop, f_.sub(n, rest));
      const int at_once = vectors_at_once(s);
      const Int full =
          at_once == 1 ? whole : f_.sub(whole, f_.remainder(f_.sub(whole, begin), int64_t{w_} * at_once));
      const Int end = rest.is(0) ? whole : f_.min(stop, n);
      simd_axis(s, begin, full, end, at_once, outer > 0, none);
    };
    if (s.simd && outer == 0) return vectors(Int("%begin"), Int("%end"));
    f_.when_less("any", Int("%begin"), Int("%end"), false, none, [&] {
      Int in_row = 0, row = Int("%begin");
      std::string per_row;
      if (s.simd) {
        Int n = f_.divide(f_.add(extent(s.axes.back().extent), w_ - 1), w_);
        per_row = n.text;
        in_row = f_.here("srem i64 %begin, " + per_row);
        row = f_.here("sdiv i64 %begin, " + per_row);
      }
      std::vector<Carried> state(outer + (s.simd ? 1 : 0));
      for (size_t a = outer; a-- > 0;) {
        const std::string n = range(s.axes[a]).second.text;
        std::string digit = a == 0 ? row.text : f_.here("srem i64 " + row.text + ", " + n);
        if (a > 0) row = Int(f_.here("sdiv i64 " + row.text + ", " + n));
        state[a] = {"i64", hint(s.axes[a].var), digit};
      }
      if (s.simd) state[outer] = {"i64", hint(s.axes[outer].var) + ".vector", in_row.text};
      f_.loop("par", Int("%begin"), Int("%end"), true, state, [&](const std::string& at) -> Int {
        for (size_t a = 0; a < outer; ++a) define(s.axes[a].var, state[a].value, 1);
        Int done = 1;
        if (s.simd) {
          Int first = Int(state[outer].value);
          Int left = f_.sub(Int("%end"), Int(at));
          done = f_.min(left, f_.sub(Int(per_row), first));
          vectors(first, f_.add(first, done));
          state[outer].value = "0";
        } else {
          body();
        }
        Int carry = 1;
        for (size_t a = outer; a-- > 0;) {
          Int next = f_.add(Int(state[a].value), carry);
          if (a > 0) {
            std::string wrapped = f_.pure("icmp eq i64 " + next.text + ", " + range(s.axes[a]).second.text);
            carry = Int(f_.pure("zext i1 " + wrapped + " to i64"));
            next = Int(f_.pure("select i1 " + wrapped + ", i64 0, i64 " + next.text));
          }
          state[a].value = next.text;
        }
        return f_.add(Int(at), done);
      });
    });
  }

  void emit_block(const Block& block) {
    for (const Stmt& s : block) emit_stmt(s);
  }

  void emit_stmt(const Stmt& s) {
    switch (s.kind) {
      case Stmt::Kind::op:
      case Stmt::Kind::cast:
      case Stmt::Kind::bitcast:
      case Stmt::Kind::constant:
      case Stmt::Kind::size:
      case Stmt::Kind::index: return emit_scalar(s);
      case Stmt::Kind::load: return emit_load(s);
      case Stmt::Kind::store: return emit_store(s);
      case Stmt::Kind::loop: return emit_loop(s);
      case Stmt::Kind::reduce: return emit_reduce(s);
      case Stmt::Kind::scan: return emit_scan(s);
      case Stmt::Kind::par: break;
    }
    TENON_CHECK(false, "par inside the par nest");
  }

  // By the variable that counts tiles: elements of a tile, and the end of the tiled axis.
  std::map<Ref, std::pair<Int, Int>> tiles_;
  std::vector<Prefetch> prefetches_;
  std::vector<Carried>* scans_ = nullptr;  // values of the scans of the innermost `for`
  size_t next_scan_ = 0;
};

}  // namespace

std::string emit_llvm(const Kernel& kernel, Isa isa) { return Emitter(kernel, isa).run(); }

}  // namespace tenon::jit
