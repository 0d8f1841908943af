// See emit_cuda_lanes.h.
#include "jit/cuda/emit_cuda_lanes.h"

#include <algorithm>

#include "jit/analysis/lane_stride.h"
#include "jit/cuda/cuda_text.h"
#include "jit/kernel/walk.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;
using Form = CudaSchedule::Form;
using Locals = CudaSchedule::Locals;

constexpr int64_t kOfSums = 16;  // registers for sums

// Splits a block before and after each loop, and before a load of a buffer that an earlier statement of the
// segment stores to.
std::vector<std::vector<const Stmt*>> segments(const Block& block) {
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

}  // namespace

CudaLanes::CudaLanes(const Kernel& kernel, const CudaSchedule& schedule) : k_(kernel), s_(schedule) {
  varies_.assign(k_.types.size(), false);
  array_.assign(k_.types.size(), false);
  vector_ = s_.form != Form::flat || k_.body[0].simd ? s_.vector : 1;
  team_ = s_.form == Form::row ? s_.team : 1;
  whole_ = s_.whole || vector_ == 1;
}

// ---- text ----

void CudaLanes::line(const std::string& text) {
  text_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + text + "\n";
}
void CudaLanes::open(const std::string& text) {
  line(text + " {");
  ++depth_;
}
void CudaLanes::close() {
  --depth_;
  line("}");
}
std::string CudaLanes::pointer(size_t buffer) const {
  return (k_.buffers[buffer].role == Buffer::Role::local ? "t" : "p") + std::to_string(buffer);
}
std::string CudaLanes::element_at(const Stmt& s, bool each) const {
  return pointer(s.buffer) + "[" + address(s, each) + "]";
}
std::string CudaLanes::type(Ref ref) const { return std::string(cuda_type(compute_type(k_.types[ref]))); }

std::string CudaLanes::vector_type(const Stmt& access) const {
  return "tn_vec<" + std::string(cuda_memory_type(k_.buffers[access.buffer].type)) + ", " + number(vector_) +
         ">";
}

// The text that reads the value here. Within TN_EACH, a value that differs from lane to lane may be in an
// array.
std::string CudaLanes::use(Ref ref) const {
  return loop_variable_.count(ref) ? variable(ref) : value(ref) + (array_[ref] ? "[v]" : "");
}

std::string CudaLanes::extent(const Extent& e) const {
  if (e.size < 0) return cuda_index(e.factor);
  return e.factor == 1 ? "s" + number(e.size) : cuda_index(e.factor) + " * s" + number(e.size);
}

// ---- addresses ----

CudaLanes::Reach CudaLanes::reach(const Stmt& s) const {
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

std::string CudaLanes::address(const Stmt& s, bool each) const {
  // If a cluster shares a local, a block has the elements of its own threads.
  if (s_.cluster > 1 && k_.buffers[s.buffer].role == Buffer::Role::local)
    return each && vector_ > 1 ? "own + v" : "own";
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

// ---- statements that all threads of a team execute alike ----

void CudaLanes::emit_uniform(const Stmt& s) {
  switch (s.kind) {
    case K::load:
      return line("const " + type(s.result) + " " + value(s.result) + " = tn_get(" +
                  (ahead_.count(&s) ? loaded(s) : element_at(s, false)) + ");");
    case K::store: {
      const std::string put = "tn_put(" + element_at(s, false) + ", " + use(s.args[0]) + ");";
      return line(team_ > 1 ? "if (lane == 0) " + put : put);
    }
    case K::loop:
    case K::reduce: return emit_control(s);
    case K::scan: {
      const std::string a = accumulator(s.result);
      line(a + " = " + fold_call(s.op, a, use(s.args[0])) + ";");
      return line("const " + type(s.result) + " " + value(s.result) + " = " + a + ";");
    }
    case K::par: TENON_CHECK(false, "par inside the par nest"); return;
    default: return line(scalar(s));
  }
}

std::string CudaLanes::scalar(const Stmt& s) const {
  return "const " + type(s.result) + " " + value(s.result) + " = " + expression(s) + ";";
}
std::string CudaLanes::expression(const Stmt& s) const {
  switch (s.kind) {
    case K::op: {
      std::string call = "tn_" + std::string(op(s.op).name) + "(";
      for (size_t i = 0; i < s.args.size(); ++i) call += (i ? ", " : "") + use(s.args[i]);
      return call + ")";
    }
    case K::cast: {
      if (is_narrow(s.type)) return "tn_round_" + std::string(name(s.type)) + "(" + use(s.args[0]) + ")";
      return "tn_cast<" + std::string(cuda_type(s.type)) + ">(" + use(s.args[0]) + ")";
    }
    case K::bitcast: return "tn_bitcast<" + std::string(cuda_type(s.type)) + ">(" + use(s.args[0]) + ")";
    case K::constant: return cuda_literal(compute_type(s.type), s.literal);
    case K::size: return "(tn_i64)s" + number(s.size);
    case K::index:
      return "(tn_i64)" +
             (s.args[0] == simd_ && vector_ > 1 ? "(" + variable(s.args[0]) + " + v)" : variable(s.args[0]));
    default: break;
  }
  TENON_CHECK(false, "not a scalar statement");
  return "";
}

std::string CudaLanes::fold_call(OpId fold, const std::string& a, const std::string& b) {
  return "tn_" + std::string(op(fold).name) + "(" + a + ", " + b + ")";
}

// ---- statements for the lanes of a thread ----

void CudaLanes::enter_lanes(const Axis& axis, const std::string& end) {
  simd_ = axis.var;
  varies_[axis.var] = true;
  count_lanes(axis, end);
}
void CudaLanes::count_lanes(const Axis& axis, const std::string& end) {
  if (!whole_)
    line("const int count = tn_count(" + variable(axis.var) + ", " + end + ", " + number(vector_) + ");");
}

bool CudaLanes::reads_lanes(const Stmt& s) const {
  auto lane = [&](Ref r) { return varies_[r]; };
  if (std::ranges::any_of(s.args, lane)) return true;
  return std::ranges::any_of(s.address, [&](const Term& t) { return t.var != kNoRef && varies_[t.var]; });
}

// yields: the values that `tail` reads.
void CudaLanes::emit_lanes(const Block& block, const std::function<void()>& tail,
                           const std::vector<Ref>& yields) {
  const auto list = segments(block);
  for (size_t i = 0; i < list.size(); ++i) {
    // Values that later segments read are in arrays.
    std::set<Ref> later;
    if (i + 1 < list.size() || !tail) later.insert(yields.begin(), yields.end());
    for (size_t n = i + 1; n < list.size(); ++n)
      for (const Stmt* s : list[n]) collect_uses(*s, later);
    const bool last = i + 1 == list.size();
    if (list[i].size() == 1 && !list[i][0]->axes.empty()) {
      emit_control(*list[i][0]);
    } else if (list[i].size() == 1 && list[i][0]->kind == K::scan) {
      emit_lane_scan(*list[i][0]);
    } else {
      emit_segment(list[i], later, last ? tail : std::function<void()>());
      continue;
    }
    if (last && tail) emit_segment({}, {}, tail);
  }
}

void CudaLanes::emit_before(const Block& block, const std::set<Ref>& later) {
  std::vector<const Stmt*> list;
  for (const Stmt& s : block) list.push_back(&s);
  emit_segment(list, later, {});
}

void CudaLanes::emit_lane_scan(const Stmt& s) {
  const std::string a = accumulator(s.result);
  varies_[s.result] = array_[s.result] = true;
  line(type(s.result) + " " + value(s.result) + "[" + number(vector_) + "];");
  line("TN_EACH " + value(s.result) + "[v] = " + a + "[v] = " + fold_call(s.op, a + "[v]", use(s.args[0])) +
       ";");
}

void CudaLanes::emit_segment(const std::vector<const Stmt*>& list, const std::set<Ref>& later,
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
    if (shares_blocks(*s))
      line("const tn_words<" + number(vector_) + "> x" + std::to_string(s->result) + " = tn_random_words<" +
           number(vector_) + ">(" + first_lane_of(s->args[0]) + ", " + use(s->args[1]) + ");");
    each.push_back(s);
  }
  for (const Stmt* s : each)
    if (s->kind != K::store && later.count(s->result)) {
      array_[s->result] = true;
      line(type(s->result) + " " + value(s->result) + "[" + number(vector_) + "];");
    }
  for (const Stmt* s : each)
    if (s->kind == K::store && reach(*s) == Reach::together && element(*s).empty())
      line(vector_type(*s) + " " + stored(*s) + ";");
  if (each.empty() && !tail) return;
  open("TN_EACH");
  for (const Stmt* s : each) emit_each(*s);
  if (tail) tail();
  close();
  for (const Stmt* s : each)
    if (s->kind == K::store && reach(*s) == Reach::together && element(*s).empty())
      store_vector(*s, stored(*s));
}

// Whether the random numbers of all lanes come from half as many blocks.
bool CudaLanes::shares_blocks(const Stmt& s) const {
  return s.kind == K::op && s.op == ops::random_bits && vector_ > 1 && !varies_[s.args[1]] &&
         lane_step(k_, s.args[0], simd_) == 1;
}
// The value in the first lane, of a value that grows from lane to lane.
std::string CudaLanes::first_lane_of(Ref value) const {
  if (!varies_[value]) return use(value);
  const Stmt& s = *definition(k_.body, value);
  if (s.kind == K::index) return "(tn_i64)" + variable(s.args[0]);
  return "tn_add(" + first_lane_of(s.args[0]) + ", " + first_lane_of(s.args[1]) + ")";
}

// The text of the element of lane v, if the access does not go to its buffer; otherwise empty.
std::string CudaLanes::element(const Stmt& s) const {
  if (const auto it = elements_.find(&s); it != elements_.end()) return it->second;
  if (s_.locals != Locals::registers || k_.buffers[s.buffer].role != Buffer::Role::local) return "";
  return pointer(s.buffer) + "[c" + (vector_ > 1 ? " * " + number(vector_) + " + v" : "") + "]";
}
std::string CudaLanes::stored(const Stmt& s) {
  auto [it, is_new] = stored_.try_emplace(&s, static_cast<int>(stored_.size()));
  return "w" + number(it->second);
}
// The variable with the vector that a load of adjacent elements reads.
std::string CudaLanes::loaded(const Stmt& s) const {
  return kept_loads_.count(&s) || ahead_.count(&s) ? loaded_ahead(s) : "x" + std::to_string(s.result);
}
std::string CudaLanes::loaded_ahead(const Stmt& s) const {
  const auto kept = kept_loads_.find(&s);
  if (kept != kept_loads_.end()) return kept->second.name + "[c]";
  return "x" + std::to_string(s.result) + "[" + step_ + "]";
}
std::string CudaLanes::vector_at(const Stmt& s) const {
  return "tn_load<" + number(vector_) + ">(" + pointer(s.buffer) + " + (" + address(s, false) + ")" +
         count_argument() + ")";
}
void CudaLanes::store_vector(const Stmt& s, const std::string& value) {
  line("tn_store<" + number(vector_) + ">(" + pointer(s.buffer) + " + (" + address(s, false) + "), " + value +
       count_argument() + ");");
}
void CudaLanes::load_vector(const Stmt& s) {
  if (!element(s).empty() || ahead_.count(&s)) return;
  const auto kept = kept_loads_.find(&s);
  if (kept != kept_loads_.end() && !kept->second.first) return;
  const std::string load = " = " + vector_at(s) + ";";
  if (kept != kept_loads_.end())
    line(loaded(s) + load);
  else
    line("const " + vector_type(s) + " " + loaded(s) + load);
}

void CudaLanes::emit_each(const Stmt& s) {
  const bool access = is_access(s);
  std::string at = access ? element(s) : "";
  const bool together = access && at.empty() && reach(s) == Reach::together,
             guarded = access && at.empty() && !together && !whole_;
  if (together)
    at = (s.kind == K::load ? loaded(s) : stored(s)) + ".at[v]";
  else if (access && at.empty())
    at = element_at(s, true);
  if (s.kind == K::store)
    return line((guarded ? "if (v < count) " : "") + std::string("tn_put(") + at + ", " + use(s.args[0]) +
                ");");
  const std::string computed =
      shares_blocks(s) ? "x" + std::to_string(s.result) + ".at[v]"
      : access         ? (guarded ? "v >= count ? " + type(s.result) + "(0) : " : "") + "tn_get(" + at + ")"
                       : expression(s);
  line((array_[s.result] ? value(s.result) + "[v]" : "const " + type(s.result) + " " + value(s.result)) +
       " = " + computed + ";");
}

// ---- loads of several steps of a loop ----

std::vector<const Stmt*> CudaLanes::loads_ahead(const Block& body) const {
  std::set<Ref> computed;
  std::vector<const Stmt*> loads;
  for (const Stmt& s : body) {
    if (!s.axes.empty() || s.kind == K::scan) return {};
    computed.insert(s.result);
  }
  for (const Stmt& s : body) {
    if (s.kind != K::load || k_.buffers[s.buffer].role != Buffer::Role::in || reach(s) == Reach::apart)
      continue;
    if (std::ranges::none_of(s.address,
                             [&](const Term& t) { return t.var != kNoRef && computed.count(t.var); }))
      loads.push_back(&s);
  }
  return loads;
}
std::vector<const Stmt*> CudaLanes::loads_of_chunks(const Block& body) const {
  std::vector<const Stmt*> loads, others;
  int64_t bytes = 0, kept_bytes = 0;
  auto of_chunks = [&](const Buffer& b) { return int64_t{s_.chunks} * vector_ * size_of(b.type); };
  for (const Stmt* s : loads_ahead(body)) {
    if (reach(*s) != Reach::together) continue;
    const auto kept = kept_loads_.find(s);
    if (kept == kept_loads_.end()) {
      others.push_back(s);
      bytes += of_chunks(k_.buffers[s->buffer]);
    } else if (kept->second.first) {
      loads.push_back(s);
    }
  }
  // Registers that remain beside kept rows, addresses and sums.
  for (const Stmt* s : first_loads_) kept_bytes += of_chunks(k_.buffers[s->buffer]);
  for (const Buffer& b : k_.buffers)
    if (b.role == Buffer::Role::local) kept_bytes += of_chunks(b);
  const int64_t left = 4 * (registers_of_thread(s_) - kOfSums) - kept_bytes;
  if (bytes <= std::min(kBytesAhead, left)) loads.insert(loads.end(), others.begin(), others.end());
  return loads;
}
void CudaLanes::declare_ahead(const Stmt& s, int steps) {
  if (kept_loads_.count(&s)) return;
  const std::string memory(cuda_memory_type(k_.buffers[s.buffer].type));
  line((reach(s) == Reach::same ? memory : vector_type(s)) + " x" + std::to_string(s.result) + "[" +
       number(steps) + "];");
}
void CudaLanes::load_ahead(const Stmt& s) {
  line(loaded_ahead(s) + " = " + (reach(s) == Reach::same ? element_at(s, false) : vector_at(s)) + ";");
}

// ---- loads that several loops over the row repeat ----

void CudaLanes::find_kept_loads(const Block& block) {
  std::map<std::string, std::vector<const Stmt*>> same;
  std::vector<std::string> order;
  for (const Stmt& loop : block) {
    if (!loop.simd) {
      if (loop.kind == K::loop) find_kept_loads(loop.body);
      continue;
    }
    simd_ = loop.axes.back().var;
    varies_[simd_] = true;
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
  for (const std::string& key : order) {
    const auto& list = same[key];
    if (list.size() < 2) continue;
    const std::string name = "k" + std::to_string(first_loads_.size());
    for (const Stmt* s : list) kept_loads_[s] = {name, s == list.front()};
    first_loads_.push_back(list.front());
  }
}

void CudaLanes::declare_kept_loads() {
  for (const Stmt* s : first_loads_)
    line(vector_type(*s) + " " + kept_loads_.at(s).name + "[" + number(s_.chunks) + "];");
}

}  // namespace tenon::jit
