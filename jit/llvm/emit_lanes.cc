// See emit_lanes.h.
#include "jit/llvm/emit_lanes.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "jit/schedule/schedule.h"

namespace tenon::jit {

Int LaneEmitter::extent(const Extent& e) {
  return e.size < 0 ? Int(e.factor) : f_.mul(sizes_[e.size], e.factor);
}

std::string LaneEmitter::hint(Ref ref) const {
  return ref < k_.names.size() && !k_.names[ref].empty() ? k_.names[ref] : "v" + std::to_string(ref);
}

// ---- values ----

std::string LaneEmitter::expand_at(std::string_view text, const std::vector<std::string>& operands,
                                   DType operand, DType result, int lanes, const std::string& name) {
  size_t left = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  return expand({text, operand, result, lanes}, operands,
                [&](const std::string& line) { return f_.pure(line, left-- == 0 ? name : "t"); });
}

std::string LaneEmitter::vector(const Value& v) {
  if (v.lanes == w_) return v.text;
  const std::string type(register_type(v.type));
  return spread(type, v.text, w_, v.text.substr(1) + ".all");
}

std::string LaneEmitter::spread(std::string_view type, const std::string& scalar, int lanes,
                                std::string_view name) {
  if (!scalar.starts_with('%')) return constant_at_lanes(type, scalar, lanes);
  const std::string wide = at_lanes(type, lanes);
  const std::string first =
      f_.pure("insertelement " + wide + " poison, " + std::string(type) + " " + scalar + ", i64 0");
  return f_.pure("shufflevector " + wide + " " + first + ", " + wide + " poison, " + at_lanes("i32", lanes) +
                     " zeroinitializer",
                 name);
}

std::string LaneEmitter::any_lane(std::string flags, int lanes, std::string_view name, std::string_view any) {
  if (lanes == 1) return flags;
  const std::string wide = at_lanes("i1", lanes), bits = "i" + std::to_string(lanes);
  if (simd_.masked) flags = f_.pure("and " + wide + " " + flags + ", " + mask(), name);
  return f_.pure("icmp ne " + bits + " " + f_.pure("bitcast " + wide + " " + flags + " to " + bits) + ", 0",
                 any);
}

std::pair<std::vector<std::string>, int> LaneEmitter::level(const std::vector<Ref>& args) {
  int lanes = 1;
  for (Ref r : args) lanes = std::max(lanes, refs_[r].lanes);
  std::vector<std::string> texts;
  for (Ref r : args) texts.push_back(lanes == 1 ? refs_[r].text : vector(refs_[r]));
  return {texts, lanes};
}

void LaneEmitter::define(Ref ref, std::string text, int lanes) {
  refs_[ref] = {std::move(text), compute_type(k_.types[ref]), lanes};
}

std::string LaneEmitter::combine(OpId id, DType type, int lanes, const std::string& a, const std::string& b,
                                 const std::string& name) {
  std::string_view text = spelling(op(id), type);
  TENON_CHECK(!text.empty(), std::string(op(id).name) + " cannot fold in LLVM");
  return expand_at(text, {a, b}, type, type, lanes, name);
}

std::string LaneEmitter::select(const std::string& mask, const std::string& type, const std::string& yes,
                                const std::string& no, std::string_view name) {
  return f_.pure(
      "select " + at_lanes("i1", w_) + " " + mask + ", " + type + " " + yes + ", " + type + " " + no, name);
}

std::string LaneEmitter::fold_pairs(OpId fold, DType type, int lanes, std::vector<std::string> values,
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

std::string LaneEmitter::fold_halves(OpId fold, DType type, std::string value, const std::string& name) {
  for (int lanes = w_; lanes > 1; lanes /= 2) {
    const std::string wide = at_lanes(register_type(type), lanes);
    std::string half[2];
    for (int h = 0; h < 2; ++h) {
      if (lanes == 2) {
        half[h] = f_.pure("extractelement " + wide + " " + value + ", i64 " + std::to_string(h));
        continue;
      }
      half[h] = shuffle(wide, value, "poison", lanes / 2, [&](int l) { return h * lanes / 2 + l; });
    }
    value = combine(fold, type, lanes / 2, half[0], half[1], name);
  }
  return value;
}

std::string LaneEmitter::lane_numbers(std::string_view type) const {
  std::string text = "<";
  for (int l = 0; l < w_; ++l) text += (l ? ", " : "") + std::string(type) + " " + std::to_string(l);
  return text + ">";
}

std::string LaneEmitter::mask() {
  if (simd_.count.known) {
    std::string text = "<";
    for (int l = 0; l < w_; ++l)
      text += std::string(l ? ", " : "") + (l < *simd_.count.known ? "i1 true" : "i1 false");
    return text + ">";
  }
  std::string count = f_.pure("trunc i64 " + simd_.count.text + " to i32");
  return f_.pure(
      "icmp ult " + at_lanes("i32", w_) + " " + lane_numbers("i32") + ", " + vector({count, DType::i32, 1}),
      "mask");
}

// ---- addresses ----

std::string LaneEmitter::offset_pointer(std::string_view type, const std::string& base, const Int& elements) {
  if (elements.is(0)) return base;
  return f_.pure("getelementptr " + std::string(type) + ", ptr " + base + ", i64 " + elements.text, "at");
}

Place LaneEmitter::place(int buffer, const Address& address) {
  Place p;
  Int stride = 0;
  bool varies = false, adjoin = false;
  std::map<int, Int> sums;  // sums of scalar terms, by the position where they are known
  for (const Term& term : address) {
    Int scale = term.size < 0 ? Int(term.factor) : f_.mul(sizes_[term.size], term.factor);
    Int product = scale;
    if (term.var != kNoRef && term.var == simd_.var) {
      stride = f_.add(stride, scale);
      varies = true;
      product = f_.mul(scale, simd_.base);
    } else if (term.var != kNoRef && refs_[term.var].lanes > 1) {
      const std::string wide = at_lanes("i64", w_);
      std::string part = refs_[term.var].text;
      adjoin = adjoin || scale.is(1);
      p.table = p.table && follows_axis(term.var);
      if (!scale.is(1))
        part = f_.pure("mul " + wide + " " + part + ", " + vector({scale.text, DType::i64, 1}));
      p.offsets = p.offsets.empty() ? part : f_.pure("add " + wide + " " + p.offsets + ", " + part);
      continue;
    } else if (term.var != kNoRef) {
      const std::string& var = refs_[term.var].text;
      product = f_.mul(scale, var.starts_with('%') ? Int(var) : Int(std::stoll(var)));
    }
    int at = product.known ? 0 : f_.position(product.text);
    auto [it, is_new] = sums.try_emplace(at, product);
    if (!is_new) it->second = f_.add(it->second, product);
  }
  const std::string_view type = memory_type(k_.buffers[buffer].type);
  p.pointer = bases_[buffer];
  for (const auto& [at, sum] : sums) p.pointer = offset_pointer(type, p.pointer, sum);
  if (!p.offsets.empty()) {
    p.kind = Place::Kind::gather;
    p.table = p.table && adjoin;
    const std::string wide = at_lanes("i64", w_);
    if (varies) {
      std::string step = vector({stride.text, DType::i64, 1});
      std::string along = f_.pure("mul " + wide + " " + step + ", " + lane_numbers("i64"));
      p.offsets = f_.pure("add " + wide + " " + p.offsets + ", " + along);
    }
    if (simd_.masked) p.offsets = clamp_lanes(p.offsets, "i64");
  } else if (varies && !stride.is(0)) {
    p.kind = stride.is(1) ? Place::Kind::unit : Place::Kind::strided;
    p.stride = stride;
  }
  return p;
}

Int LaneEmitter::lane(int l) {
  if (!simd_.masked || l == 0) return l;
  return f_.min(l, f_.sub(simd_.count, 1));
}

std::string LaneEmitter::clamp_lanes(const std::string& value, std::string_view type) {
  const std::string wide = at_lanes(type, w_);
  std::string last = f_.pure("extractelement " + wide + " " + value + ", i64 " + lane(w_ - 1).text);
  const std::string all = spread(type, last, w_);
  return f_.pure("select " + at_lanes("i1", w_) + " " + mask() + ", " + wide + " " + value + ", " + wide +
                 " " + all);
}

bool LaneEmitter::has_masked_memory(DType type) const {
  return isa_ == Isa::avx512 || (isa_ == Isa::avx2 && size_of(type) >= 4);
}

const std::string& LaneEmitter::stage() {
  if (stage_.empty()) stage_ = f_.entry("alloca [" + std::to_string(w_ * 8) + " x i8], align 64", "stage");
  return stage_;
}

void LaneEmitter::copy(const std::string& to, const std::string& from, int element) {
  Int bytes = f_.mul(simd_.count, element);
  f_.statement("call void @llvm.memcpy.p0.p0.i64(ptr " + to + ", ptr " + from + ", i64 " + bytes.text +
               ", i1 false)");
}

// ---- loads and stores ----

std::string LaneEmitter::read(const Buffer& b, const std::string& line, const std::string& name,
                              bool uniform) {
  return b.role == Buffer::Role::in ? f_.invariant_load(line, name, uniform) : f_.here(line, name);
}

std::string LaneEmitter::read_lanes(const Buffer& b, const Place& p, const std::string& name) {
  const std::string type(memory_type(b.type)), wide = at_lanes(type, w_),
                                               align = std::to_string(size_of(b.type));
  switch (p.kind) {
    case Place::Kind::uniform:
      return read(b, "load " + type + ", ptr " + p.pointer + ", align " + align, name, true);
    case Place::Kind::unit:
      if (!simd_.masked) return read(b, "load " + wide + ", ptr " + p.pointer + ", align " + align, name);
      if (has_masked_memory(b.type))
        return read(b,
                    "call " + wide + " @llvm.masked.load." + memory_mangled(b.type) + ".p0(ptr " + p.pointer +
                        ", i32 " + align + ", " + at_lanes("i1", w_) + " " + mask() + ", " + wide +
                        " zeroinitializer)",
                    name);
      f_.statement("store " + wide + " zeroinitializer, ptr " + stage() + ", align 64");
      copy(stage(), p.pointer, size_of(b.type));
      return f_.here("load " + wide + ", ptr " + stage() + ", align 64", name);
    case Place::Kind::strided: {
      if (!simd_.masked && p.stride.known && *p.stride.known >= -kWideStride &&
          *p.stride.known <= kWideStride)
        return read_apart(b, p, *p.stride.known, name);
      std::string all = "poison";
      for (int l = 0; l < w_; ++l) {
        std::string at = offset_pointer(type, p.pointer, f_.mul(lane(l), p.stride));
        std::string one = read(b, "load " + type + ", ptr " + at + ", align " + align, name + ".lane");
        all = f_.pure(
            "insertelement " + wide + " " + all + ", " + type + " " + one + ", i64 " + std::to_string(l),
            name);
      }
      return all;
    }
    case Place::Kind::gather: {
      const bool near = p.table && reach(b.type) > 0 && (f_.is_local(p.offsets) || f_.is_local(p.pointer));
      return near ? read_near(b, p, name) : gather(b, p, name);
    }
  }
  return "";
}

std::string LaneEmitter::gather(const Buffer& b, const Place& p, const std::string& name) {
  const std::string type(memory_type(b.type)), wide = at_lanes(type, w_);
  return read(b,
              "call " + wide + " @llvm.masked.gather." + memory_mangled(b.type) + ".v" + std::to_string(w_) +
                  "p0(" + at_lanes("ptr", w_) + " " + pointers(type, p) + ", i32 " +
                  std::to_string(size_of(b.type)) + ", " + at_lanes("i1", w_) + " " +
                  constant_at_lanes("i1", "true", w_) + ", " + wide + " poison)",
              name);
}

// Elements a few apart, in rising or falling order: loads all elements from the lowest to the highest as whole
// vectors and drops those in between. The last vector ends where the highest element does.
std::string LaneEmitter::read_apart(const Buffer& b, const Place& p, int64_t stride,
                                    const std::string& name) {
  const std::string type(memory_type(b.type)), wide = at_lanes(type, w_);
  const int64_t lowest = std::min<int64_t>((w_ - 1) * stride, 0);  // from lane 0
  const int64_t count = (w_ - 1) * std::abs(stride) + 1;
  std::string all;
  int64_t loaded = 0;
  for (int v = 0; loaded < count; ++v) {
    const int64_t first = std::min<int64_t>(loaded, count - w_);
    const std::string vector =
        read(b,
             "load " + wide + ", ptr " + offset_pointer(type, p.pointer, lowest + first) + ", align " +
                 std::to_string(size_of(b.type)),
             name + ".span");
    auto from = [&](int l) {  // lanes of other vectors stay
      const int64_t at = l * stride - lowest;
      return at >= loaded && at < first + w_ ? (v ? w_ : 0) + at - first : l;
    };
    all = shuffle(wide, v ? all : vector, v ? vector : "poison", w_, from, name);
    loaded = first + w_;
  }
  return all;
}

std::string LaneEmitter::pointers(const std::string& type, const Place& p) {
  return f_.pure(
      "getelementptr " + type + ", ptr " + p.pointer + ", " + at_lanes("i64", w_) + " " + p.offsets, "at");
}

std::string LaneEmitter::memory_mangled(DType type) const {
  std::string_view m = memory_type(type);
  return "v" + std::to_string(w_) + (m == "double" ? "f64" : m == "float" ? "f32" : std::string(m));
}

bool LaneEmitter::crosses(const Stmt& s, Ref var, const std::set<Ref>& computed) const {
  const bool loads = s.kind == Stmt::Kind::load;
  if (!loads && s.kind != Stmt::Kind::store) return false;
  if (k_.buffers[s.buffer].role != (loads ? Buffer::Role::in : Buffer::Role::out)) return false;
  bool jumps = false, steps = false;
  for (const Term& t : s.address) {
    if (t.var == kNoRef) continue;
    if (t.var == simd_.var) {
      if (jumps || (t.size < 0 && t.factor == 1)) return false;
      jumps = true;
    } else if (t.var == var) {
      if (steps || t.size >= 0 || t.factor != 1) return false;
      steps = true;
    } else if (computed.count(t.var) || refs_[t.var].lanes > 1) {
      return false;
    }
  }
  return jumps && steps;
}

std::vector<std::string> LaneEmitter::read_crossing(const Stmt& load) {
  const Buffer& b = k_.buffers[load.buffer];
  const std::string type(memory_type(b.type)), wide = at_lanes(type, w_), name = hint(load.result);
  const Place p = place(load.buffer, load.address);
  std::vector<std::string> rows;
  for (int l = 0; l < w_; ++l) {
    const std::string at = offset_pointer(type, p.pointer, f_.mul(l, p.stride));
    rows.push_back(read(b, "load " + wide + ", ptr " + at + ", align " + std::to_string(size_of(b.type)),
                        name + ".row"));
  }
  return turned(std::move(rows), wide, name);
}

void LaneEmitter::write_crossing(const Stmt& store, std::vector<std::string> columns) {
  const Buffer& b = k_.buffers[store.buffer];
  const std::string type(memory_type(b.type)), wide = at_lanes(type, w_);
  const Place p = place(store.buffer, store.address);
  const std::vector<std::string> rows = turned(std::move(columns), wide, "out");
  for (int l = 0; l < w_; ++l) {
    const std::string at = offset_pointer(type, p.pointer, f_.mul(l, p.stride));
    f_.statement("store " + wide + " " + rows[l] + ", ptr " + at + ", align " +
                 std::to_string(size_of(b.type)));
  }
}

std::vector<std::string> LaneEmitter::turned(std::vector<std::string> rows, const std::string& wide,
                                             const std::string& name) {
  auto turn = [&](const std::string& x, const std::string& y, const auto& from) {
    return shuffle(wide, x, y, w_, from, name + ".turn");
  };
  // Transposes blocks of four by four within groups of four lanes, then the groups.
  for (int g = 0; g < w_; g += 4) {
    auto pairs = [&](int half) {  // lanes 0 and 1, or 2 and 3, of two rows interleaved
      return [half, this](int l) { return (l & ~3) + half + (l & 3) / 2 + (l % 2) * w_; };
    };
    auto halves = [&](int half) {
      return [half, this](int l) { return (l & ~3) + half + (l % 2) + (l & 2) / 2 * w_; };
    };
    const std::string low[2] = {turn(rows[g], rows[g + 1], pairs(0)),
                                turn(rows[g + 2], rows[g + 3], pairs(0))},
                      high[2] = {turn(rows[g], rows[g + 1], pairs(2)),
                                 turn(rows[g + 2], rows[g + 3], pairs(2))};
    rows[g] = turn(low[0], low[1], halves(0));
    rows[g + 1] = turn(low[0], low[1], halves(2));
    rows[g + 2] = turn(high[0], high[1], halves(0));
    rows[g + 3] = turn(high[0], high[1], halves(2));
  }
  for (int d = 4; d < w_; d *= 2)
    for (int r = 0; r < w_; ++r) {
      if (r & d) continue;
      const std::string x = rows[r], y = rows[r + d];
      rows[r] = turn(x, y, [&](int l) { return l & d ? l - d + w_ : l; });
      rows[r + d] = turn(x, y, [&](int l) { return l & d ? l + w_ : l + d; });
    }
  return rows;
}

void LaneEmitter::emit_load(const Stmt& s) {
  const Buffer& b = k_.buffers[s.buffer];
  Place p = place(s.buffer, s.address);
  int lanes = p.kind == Place::Kind::uniform ? 1 : w_;
  const std::string conversion = load_template(b.type);
  const std::string name = hint(s.result);
  auto there = turned_.find(&s);
  std::string bits =
      there != turned_.end() ? there->second : read_lanes(b, p, conversion == "$0" ? name : name + ".bits");
  define(s.result, expand_at(conversion, {bits}, b.type, compute_type(b.type), lanes, name), lanes);
  refs_[s.result].is_bf16 = b.type == DType::bf16;
}

void LaneEmitter::emit_store(const Stmt& s) {
  const Buffer& b = k_.buffers[s.buffer];
  Place p = place(s.buffer, s.address);
  const Value& v = refs_[s.args[0]];
  const std::string type(memory_type(b.type)), wide = at_lanes(type, w_),
                                               align = std::to_string(size_of(b.type));
  // A scalar is converted once, before it is broadcast to the lanes.
  std::string bits = expand_at(store_template(b.type, v.is_bf16), {v.text}, v.type, b.type, v.lanes, "bits");
  if (p.kind == Place::Kind::uniform) {
    // Every lane writes the same element, so the last one remains.
    if (v.lanes > 1) bits = f_.pure("extractelement " + wide + " " + bits + ", i64 " + lane(w_ - 1).text);
    f_.statement("store " + type + " " + bits + ", ptr " + p.pointer + ", align " + align);
    return;
  }
  if (v.lanes == 1) {
    DType kind = is_bool(b.type) || is_storage(b.type) ? DType::u8
                 : size_of(b.type) == 2                ? DType::i16
                                                       : b.type;
    bits = vector({bits, kind, 1});
  }
  if (auto later = columns_.find(&s); later != columns_.end()) {
    later->second.push_back(bits);
    return;
  }
  if (p.kind == Place::Kind::unit) {
    if (!simd_.masked) {
      f_.statement("store " + wide + " " + bits + ", ptr " + p.pointer + ", align " + align);
    } else if (has_masked_memory(b.type)) {
      f_.statement("call void @llvm.masked.store." + memory_mangled(b.type) + ".p0(" + wide + " " + bits +
                   ", ptr " + p.pointer + ", i32 " + align + ", " + at_lanes("i1", w_) + " " + mask() + ")");
    } else {
      f_.statement("store " + wide + " " + bits + ", ptr " + stage() + ", align 64");
      copy(p.pointer, stage(), size_of(b.type));
    }
    return;
  }
  if (p.kind == Place::Kind::strided && store_with_neighbours(s, p, bits)) return;
  if (simd_.masked) bits = clamp_lanes(bits, type);
  if (p.kind == Place::Kind::strided) {
    for (int l = 0; l < w_; ++l) {
      std::string at = offset_pointer(type, p.pointer, f_.mul(lane(l), p.stride));
      std::string one = f_.pure("extractelement " + wide + " " + bits + ", i64 " + std::to_string(l));
      f_.statement("store " + type + " " + one + ", ptr " + at + ", align " + align);
    }
  } else {
    // Lanes are written in order. If addresses are equal, the last lane remains, as in the order of the
    // kernel.
    f_.statement("call void @llvm.masked.scatter." + memory_mangled(b.type) + ".v" + std::to_string(w_) +
                 "p0(" + wide + " " + bits + ", " + at_lanes("ptr", w_) + " " + pointers(type, p) + ", i32 " +
                 align + ", " + at_lanes("i1", w_) + " " + constant_at_lanes("i1", "true", w_) + ")");
  }
}

}  // namespace tenon::jit
