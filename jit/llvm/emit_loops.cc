// See emit_loops.h.
#include "jit/llvm/emit_loops.h"

#include <algorithm>
#include <set>

#include "jit/kernel/walk.h"
#include "jit/schedule/schedule.h"

namespace tenon::jit {
namespace {

// Whether the block has a load whose address does not contain the variable, which is worth hoisting out of
// the loop, or a check, whose operands may not depend on the variable either.
bool reads_beside(const Block& block, Ref var) {
  return find_stmt(block, [&](const Stmt& s) {
    return s.fault != 0 || (s.kind == Stmt::Kind::load && !steps_along(s, var));
  });
}

bool alone_in_buffer(const Stmt& store, const Block& block) {
  return std::ranges::count(block, store.buffer, &Stmt::buffer) == 1;
}

}  // namespace

std::pair<Int, Int> LoopEmitter::range(const Axis& axis) {
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

bool LoopEmitter::lane_by_lane(const Stmt& loop, const Stmt& s) const {
  return std::ranges::any_of(s.address, [&](const Term& t) {
    if (t.var == loop.axes.back().var) return t.size >= 0 || t.factor != 1;
    return t.var != kNoRef &&
           std::ranges::any_of(loop.body, [&](const Stmt& i) { return i.result == t.var; });
  });
}

int LoopEmitter::vectors_at_once(const Stmt& s) const {
  int work = 0;
  for (const Stmt& inner : s.body) {
    if (!inner.axes.empty() || inner.kind == Stmt::Kind::scan) return s.unroll;
    // A buffer that the body writes may only be read at the same address.
    if (inner.kind == Stmt::Kind::store)
      for (const Stmt& other : s.body)
        if (other.kind == Stmt::Kind::load && other.buffer == inner.buffer && other.address != inner.address)
          return s.unroll;
    work += inner.kind == Stmt::Kind::constant ? 0 : lane_by_lane(s, inner) ? kMostForFour : 1;
  }
  const int wanted = jit::vectors_at_once(work);
  return (wanted + s.unroll - 1) / s.unroll * s.unroll;
}

std::string LoopEmitter::prefetch_base(const Prefetch& p, const Stmt& loop) {
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

void LoopEmitter::emit_prefetches(const Stmt& s, const Int& base, int count) {
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

std::vector<std::string> LoopEmitter::emit_vector(const Stmt& s) {
  emit_block(s.body);
  std::vector<std::string> values;
  for (Ref r : s.yields) values.push_back(vector(refs_[r]));
  return values;
}

std::vector<std::vector<std::string>> LoopEmitter::emit_vectors(const Stmt& s, const Int& base, int count) {
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

void LoopEmitter::simd_axis(const Stmt& s, const Int& begin, const Int& full, const Int& end, int at_once,
                            bool sure, std::vector<Carried>& carried) {
  const Simd before = simd_;
  const Axis& axis = s.axes.back();
  const size_t results = s.combine.size();
  const std::string name = hint(axis.var);
  auto fold = [&](size_t u, const std::vector<std::string>& values, const std::string& keep) {
    for (size_t r = 0; r < results; ++r) {
      Carried& c = carried[u % s.unroll * results + r];
      std::string next =
          combine(s.combine[r], compute_type(k_.types[s.yields[r]]), w_, c.value, values[r], c.hint);
      c.value = keep.empty() ? next : select(keep, c.type, next, c.value, c.hint);
    }
  };
  const auto parts = [&] {
    f_.split([&] {
      f_.loop(name, begin, full, false, carried, [&](const std::string& index) -> Int {
        emit_prefetches(s, Int(index), at_once);
        auto values = emit_vectors(s, Int(index), at_once);
        for (int u = 0; u < at_once; ++u) fold(u, values[u], "");
        return f_.add(Int(index), int64_t{w_} * at_once);
      });
      if (at_once == 1) {
        f_.when_less(name + ".tail", full, end, true, carried, [&] {
          simd_ = {axis.var, full, true, f_.sub(end, full)};
          std::vector<std::string> values = emit_vector(s);
          fold(0, values, results ? mask() : "");
        });
      } else {
        f_.loop(name + ".tail", full, end, false, carried, [&](const std::string& index) -> Int {
          simd_ = {axis.var, Int(index), true, f_.min(f_.sub(end, Int(index)), w_)};
          if (s.unroll == 1) {
            std::vector<std::string> values = emit_vector(s);
            fold(0, values, results ? mask() : "");
          } else {
            emit_any(s, carried, f_.remainder(f_.sub(Int(index), full), int64_t{s.unroll} * w_));
          }
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

void LoopEmitter::whole_axis(const Stmt& s, std::vector<Carried>& carried) {
  const Axis& axis = s.axes.back();
  const auto [begin, end] = range(axis);
  const int at_once = vectors_at_once(s);
  const Int rest = f_.remainder(f_.sub(end, begin), int64_t{w_} * at_once);
  simd_axis(s, begin, f_.sub(end, rest), end, at_once, axis.of != kNoRef, carried);
}

std::string LoopEmitter::select(const std::string& mask, const std::string& type, const std::string& yes,
                                const std::string& no, std::string_view name) {
  return f_.pure(
      "select " + at_lanes("i1", w_) + " " + mask + ", " + type + " " + yes + ", " + type + " " + no, name);
}

void LoopEmitter::emit_any(const Stmt& s, std::vector<Carried>& carried, const Int& from) {
  const size_t results = s.combine.size();
  const std::string keep = mask(), lanes = at_lanes("i1", w_);
  std::vector<std::string> values = emit_vector(s);
  // Masks that select the accumulator; a select by an i1 would become a branch.
  const std::string at = vector({f_.pure("trunc i64 " + from.text + " to i32"), DType::i32, 1});
  std::vector<std::string> mine;
  for (int u = 0; u < s.unroll; ++u)
    mine.push_back(f_.pure("icmp eq " + at_lanes("i32", w_) + " " + at + ", " +
                           constant_at_lanes("i32", std::to_string(u * w_), w_)));
  for (size_t r = 0; r < results; ++r) {
    const std::string &type = carried[r].type, &name = carried[r].hint;
    std::string old = carried[r].value;
    for (int u = 1; u < s.unroll; ++u) old = select(mine[u], type, carried[u * results + r].value, old, name);
    std::string next = combine(s.combine[r], refs_[s.yields[r]].type, w_, old, values[r], name);
    for (int u = 0; u < s.unroll; ++u) {
      Carried& c = carried[u * results + r];
      c.value = select(f_.pure("and " + lanes + " " + keep + ", " + mine[u]), type, next, c.value, name);
    }
  }
}

void LoopEmitter::nest(const std::vector<Axis>& axes, size_t from, size_t count,
                       std::vector<Carried>& carried, const std::function<void()>& body) {
  if (from == count) return body();
  const auto [begin, end] = range(axes[from]);
  f_.loop(hint(axes[from].var), begin, end, axes[from].of != kNoRef, carried, [&](const std::string& index) {
    define(axes[from].var, index, 1);
    nest(axes, from + 1, count, carried, body);
    return f_.add(Int(index), 1);
  });
}

std::string LoopEmitter::identity(OpId fold, DType type, int lanes) const {
  auto value = combine_identity(fold, type);
  TENON_CHECK(value, std::string(op(fold).name) + " has no identity");
  return constant_at_lanes(register_type(type), literal(type, *value), lanes);
}

bool LoopEmitter::emit_turned(const Stmt& s, std::vector<Carried>& carried) {
  if (simd_.var == kNoRef || simd_.masked || s.axes.size() != 1) return false;
  const Axis& axis = s.axes[0];
  std::vector<const Stmt*> loads, stores;
  std::set<Ref> computed;
  for (const Stmt& inner : s.body) {
    computed.insert(inner.result);
    computed.insert(inner.results.begin(), inner.results.end());
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

void LoopEmitter::emit_loop(const Stmt& s) {
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

void LoopEmitter::emit_scan(const Stmt& s) {
  Carried& c = (*scans_)[next_scan_++];
  DType type = compute_type(s.type);
  c.value = combine(s.op, type, width(), c.value, at_width(refs_[s.args[0]]), hint(s.result));
  define(s.result, c.value, width());
}

void LoopEmitter::emit_reduce(const Stmt& s) {
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

std::string LoopEmitter::fold_pairs(OpId fold, DType type, int lanes, std::vector<std::string> values,
                                    const std::string& name) {
  while (values.size() > 1) {
    std::vector<std::string> next;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      next.push_back(combine(fold, type, lanes, values[i], values[i + 1], name));
    if (values.size() % 2) next.push_back(values.back());
    values = next;
  }
  return values[0];
}

std::string LoopEmitter::fold_halves(OpId fold, DType type, std::string value, const std::string& name) {
  for (int lanes = w_; lanes > 1; lanes /= 2) {
    const std::string wide = at_lanes(register_type(type), lanes);
    std::string half[2];
    for (int h = 0; h < 2; ++h) {
      if (lanes == 2) {
        half[h] = f_.pure("extractelement " + wide + " " + value + ", i64 " + std::to_string(h));
        continue;
      }
      std::string numbers = "<";
      for (int l = 0; l < lanes / 2; ++l)
        numbers += (l ? ", i32 " : "i32 ") + std::to_string(h * lanes / 2 + l);
      half[h] = f_.pure("shufflevector " + wide + " " + value + ", " + wide + " poison, " +
                        at_lanes("i32", lanes / 2) + " " + numbers + ">");
    }
    value = combine(fold, type, lanes / 2, half[0], half[1], name);
  }
  return value;
}

}  // namespace tenon::jit
