// random_kernel: makes a valid kernel and buffers that fit it from a seed, for tests that run a kernel in two ways and compare
// bits: the interpreter and machine code, two numbers of lanes, a text and its reparse.
// Kernels use every map row that has scalar code, every dtype, loads that broadcast, stride, run backwards or follow a computed
// index, several outputs, locals, casts and bitcasts, par with and without simd, nested loops with several axes, tiles and their
// elements, reduces (simd with accumulators, or not), scans, sizes that leave tails, and empty loops.
// Results do not depend on the order of par iterations or lanes: a store covers all par and simd variables one to one, and a local
// is read only where it was written. Bits of a NaN never become an integer. With `checks`, some kernels check operands, all under
// one fault number; about half of these checks find a fault. Tested by tests/unit/jit/kernel/interp_test.cc.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "jit/kernel/kernel.h"
#include "src/ir/narrow.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {

using BufferBytes = std::vector<std::vector<char>>;

struct KernelCase {
  Kernel kernel;
  std::vector<int64_t> sizes;
  std::vector<int64_t> lengths;  // per in/out buffer, elements
  BufferBytes data;              // per in/out buffer; outputs hold a pattern that no kernel writes everywhere
};

inline std::vector<BufferView> views(const KernelCase& c, BufferBytes& data) {
  std::vector<BufferView> out;
  for (size_t i = 0; i < data.size(); ++i) out.push_back({data[i].data(), c.lengths[i]});
  return out;
}

// Whether two elements have the same bits or are both NaN.
inline bool same_element(DType t, const char* a, const char* b) {
  if (std::memcmp(a, b, size_of(t)) == 0) return true;
  auto value = [&](const char* p) -> double {
    uint64_t bits = 0;
    std::memcpy(&bits, p, size_of(t));
    if (t == DType::f64) return std::bit_cast<double>(bits);
    if (t == DType::f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
    return widened(t, static_cast<uint16_t>(bits));
  };
  return is_float(t) && std::isnan(value(a)) && std::isnan(value(b));
}

// Returns "" if all buffers agree, otherwise the first difference.
inline std::string first_difference(const KernelCase& c, const BufferBytes& a, const BufferBytes& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const Buffer& buffer = c.kernel.buffers[i];
    size_t bytes = size_of(buffer.type);
    for (int64_t e = 0; e < c.lengths[i]; ++e) {
      const char *x = a[i].data() + e * bytes, *y = b[i].data() + e * bytes;
      if (same_element(buffer.type, x, y)) continue;
      auto hex = [&](const char* p) {
        uint64_t bits = 0;
        std::memcpy(&bits, p, bytes);
        char text[20];
        std::snprintf(text, sizeof text, "%0*llx", static_cast<int>(2 * bytes),
                      static_cast<unsigned long long>(bits));
        return std::string(text);
      };
      return "%" + buffer.name + "[" + std::to_string(e) + "]: " + hex(x) + " and " + hex(y);
    }
  }
  return "";
}

class KernelGenerator {
 public:
  explicit KernelGenerator(uint64_t seed, bool checks = false, bool calls = false)
      : random_(seed), checks_(checks), calls_(calls) {}

  static constexpr int64_t kMostElements = 1 << 22;  // most elements of a buffer

  KernelCase run() {
    k_.name = "random";
    main_type_ = any_type();
    static constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 40, 67};
    for (int i = 0, n = between(0, 4); i < n; ++i) {
      k_.sizes.push_back(std::string(1, static_cast<char>('N' + i)));
      c_.sizes.push_back(chance(0.04) ? 0 : kSizes[between(0, std::size(kSizes) - 1)]);
    }
    Stmt par;
    par.kind = Stmt::Kind::par;
    loop(par, between(0, 9) ? between(1, 3) : 0, chance(0.5), [&] { body(3, true); });
    if (outputs_ == 0) return KernelGenerator(random_(), checks_, calls_).run();
    k_.body.push_back(std::move(par));
    order_buffers();
    if (std::ranges::any_of(c_.lengths, [](int64_t n) { return n < 0 || n > kMostElements; }))
      return KernelGenerator(random_(), checks_, calls_).run();
    fill();
    c_.kernel = std::move(k_);
    return std::move(c_);
  }

 private:
  using K = Stmt::Kind;
  struct Var {
    Ref ref;
    int64_t extent;
    bool fixed;  // a par or simd variable, which a store must cover
  };
  struct Tile {
    Ref ref;
    int64_t by, elements;
    bool sized = false;
  };
  struct Local {
    int buffer;
    int64_t length;
  };

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[between(0, static_cast<int64_t>(from.size()) - 1)];
  }
  DType any_type() {
    static const std::vector<DType> kTypes = {DType::f32, DType::f32, DType::f32, DType::f32,
                                              DType::f64, DType::i64, DType::i32, DType::i32,
                                              DType::i16, DType::i8,  DType::u8,  DType::b8};
    return chance(0.5) ? main_type_ : pick(kTypes);
  }
  Ref use(Ref ref) {
    used_.resize(k_.types.size());
    used_[ref] = true;
    return ref;
  }
  bool unused(Ref ref) const { return ref >= used_.size() || !used_[ref]; }

  // ---- statements ----
  Ref push(Stmt s, DType type) {
    s.type = s.kind == K::cast ? s.type : type;
    Ref ref = s.result = k_.add_ref(type);
    block_->push_back(std::move(s));
    values_.push_back(ref);
    return ref;
  }
  Ref push_op(OpId id, std::vector<Ref> args) {
    std::vector<DType> types;
    for (Ref arg : args) types.push_back(k_.types[arg]);
    Stmt s;
    s.op = id;
    s.args = std::move(args);
    return push(std::move(s), *scalar_result_type(id, types));
  }
  Ref unary(K kind, Ref arg, DType type) {
    Stmt s;
    s.kind = kind;
    s.type = type;
    s.args = {arg};
    return push(std::move(s), compute_type(type));
  }
  Ref constant(DType type, Scalar value) {
    Stmt s;
    s.kind = K::constant;
    s.literal = value;
    return push(std::move(s), type);
  }

  // ---- loops ----
  Extent extent(int64_t budget, int64_t& value) {
    Extent e{between(1, 6)};
    if (!c_.sizes.empty() && chance(0.8))
      e = {chance(0.15) ? 2 : 1, static_cast<int>(between(0, c_.sizes.size() - 1))};
    value = extent_value(e, c_.sizes.data());
    if (value > budget) e = {value = between(1, std::max<int64_t>(1, std::min<int64_t>(budget, 3)))};
    return e;
  }

  Extent tile_length() {
    for (size_t s = 0; s < c_.sizes.size(); ++s)
      if (c_.sizes[s] > 0 && chance(0.2)) return {chance(0.3) ? 2 : 1, static_cast<int>(s)};
    return {between(0, 3) ? int64_t{1} << between(0, 5) : between(1, 12)};
  }

  // Opens the axes, lets `fill` make the body of the statement, and closes the scope.
  template <class Fill>
  void loop(Stmt& s, int axes, bool simd, Fill fill) {
    size_t values = values_.size(), vars = vars_.size(), locals = locals_.size(), tiles = tiles_.size();
    int64_t budget = budget_;
    s.simd = simd && axes > 0;
    for (int i = 0; i < axes; ++i) {
      int64_t n = 0;
      Axis axis;
      Tile tile{kNoRef, 0, 0};
      const bool elements = s.simd && i + 1 == axes;
      if (s.kind != K::par && !tiles_.empty() && chance(0.5)) {
        tile = pick(tiles_);
        axis.of = tile.ref;
        budget_ /= std::min(tile.by, tile.elements) + 1;
        if (!elements && !tile.sized && chance(0.3))
          axis.by = {tile.by >> between(0, std::countr_zero(static_cast<uint64_t>(tile.by)))};
      } else {
        axis.extent = extent(budget_, tile.elements);
        budget_ /= std::max<int64_t>(tile.elements, 1);
        if (!elements && chance(0.25)) axis.by = tile_length();
      }
      const int64_t by = extent_value(axis.by, c_.sizes.data());
      n = by > 0 ? (tile.elements + by - 1) / by : tile.elements;
      Ref var = axis.var = k_.add_ref(DType::i64);
      s.axes.push_back(axis);
      if (by > 0) tiles_.push_back({var, by, tile.elements, axis.by.size >= 0});
      vars_.push_back({var, n, s.kind == K::par || (s.simd && i + 1 == axes)});
    }
    bool outer_simd = simd_;
    simd_ |= s.simd;
    Block* outer = block_;
    block_ = &s.body;
    fill();
    block_ = outer;
    simd_ = outer_simd;
    budget_ = budget;
    values_.resize(values);
    vars_.resize(vars);
    locals_.resize(locals);
    tiles_.resize(tiles);
  }

  void body(int depth, bool par) {
    for (int i = 0, n = between(par ? 1 : 0, 3); i < n; ++i) {
      steps(between(0, 4));
      if (depth > 0 && chance(par ? 0.7 : 0.35)) nest(depth);
    }
    steps(between(1, 8));
    do store();
    while (chance(0.5));
  }
  void steps(int64_t n) {
    for (int64_t i = 0; i < n; ++i) step();
  }

  void nest(int depth) {
    Stmt s;
    bool simd = !simd_ && chance(0.6);
    int axes = chance(0.25) ? 2 : 1;
    if (chance(0.5)) {
      s.kind = K::reduce;
      loop(s, axes, simd, [&] { body_of_reduce(s, depth); });
      if (s.simd && chance(0.5)) s.unroll = 1 << between(1, 3);
      for (Ref yield : s.yields) s.results.push_back(k_.add_ref(k_.types[yield]));
      values_.insert(values_.end(), s.results.begin(), s.results.end());
    } else {
      s.kind = K::loop;
      bool row = !simd_ && axes == 1 && chance(0.5);
      int64_t length = 0;
      loop(s, axes, simd, [&] {
        row = row && s.axes[0].of == kNoRef && !s.axes[0].counts_tiles();
        if (row) length = vars_.back().extent;
        if (axes == 1 && !simd)
          while (chance(0.4)) scan();
        body(depth - 1, false);
        if (row) store_local(s.axes[0]);
      });
      if (row) locals_.push_back({static_cast<int>(k_.buffers.size()) - 1, length});
    }
    block_->push_back(std::move(s));
  }
  void body_of_reduce(Stmt& s, int depth) {
    if (depth > 1 && chance(0.25)) nest(depth - 1);
    steps(between(0, 5));
    if (chance(0.15)) store();
    for (int i = 0, n = chance(0.3) ? 2 : 1; i < n; ++i) {
      Ref ref = value(any_type());
      s.yields.push_back(ref);
      s.combine.push_back(pick(folds(k_.types[ref])));
    }
  }

  void scan() {
    Stmt s;
    s.kind = K::scan;
    s.args = {value(any_type())};
    DType type = k_.types[s.args[0]];
    s.op = pick(folds(type));
    push(std::move(s), type);
  }

  static const std::vector<OpId>& folds(DType type) {
    static const auto table = [] {
      std::vector<std::vector<OpId>> t(kDTypeCount);
      for (int d = 0; d < kDTypeCount; ++d)
        for (OpId id = 0; id < op_count(); ++id) {
          DType dtype = static_cast<DType>(d);
          if (op(id).kind != tenon::Kind::map || op(id).arity != 2 || spelling(op(id), dtype).empty())
            continue;
          Result<DType> result = scalar_result_type(id, {dtype, dtype});
          if (result.ok() && *result == dtype && combine_identity(id, dtype)) t[d].push_back(id);
        }
      return t;
    }();
    return table[static_cast<int>(type)];
  }

  // ---- values ----
  Ref value(DType type) {
    std::vector<Ref> known, fresh;
    for (size_t i = values_.size(); i-- > 0 && known.size() < 6;) {
      if (k_.types[values_[i]] != type) continue;
      known.push_back(values_[i]);
      if (unused(values_[i])) fresh.push_back(values_[i]);
    }
    if (!fresh.empty() && chance(0.75)) return use(pick(fresh));
    if (!known.empty() && chance(0.4)) return use(pick(known));
    return use(new_value(type));
  }

  Ref new_value(DType type) {
    if (type == DType::i64 && chance(0.3)) {
      Stmt s;
      if (!vars_.empty() && chance(0.7)) {
        s.kind = K::index;
        s.args = {pick(vars_).ref};
        return push(std::move(s), type);
      }
      if (!c_.sizes.empty()) {
        s.kind = K::size;
        s.size = static_cast<int>(between(0, c_.sizes.size() - 1));
        return push(std::move(s), type);
      }
    }
    return chance(0.7) ? load(type) : constant(type, literal(type));
  }

  Scalar literal(DType type) {
    if (is_float(type)) return Scalar::of(chance(0.7) ? between(-16, 16) * 0.3 : wild_float());
    if (is_bool(type)) return Scalar::of(between(0, 1));
    int64_t high = std::numeric_limits<int64_t>::max() >> (64 - 8 * size_of(type));
    if (!info(type).is_signed) return Scalar::of(between(0, chance(0.5) ? 9 : 255));
    return Scalar::of(chance(0.7) ? between(-9, 9) : chance(0.5) ? high : -high - 1);
  }

  double wild_float() {
    static const std::vector<double> kWild = {
        0.0,    -0.0,       1.0,          -1.0,    0.5,      INFINITY,       -INFINITY,
        NAN,    1e-40,      -1e-45,       1e-310,  0x1p-126, 0x1.fffffep127, -0x1.fffffep127,
        0x1p31, -0x1p31,    0x1p63,       127.5,   -128.5,   255.5,          65504,
        65520,  0x1.ffp-25, 2147483648.5, 88.7,    -103.9,   1e308,          464,
        -464.1, 61440,      -61439,       0x1p-10, 0x1p-17};
    return pick(kWild);
  }

  void step() {
    double kind = std::uniform_real_distribution<double>(0, 1)(random_);
    if (kind < 0.10) {
      unary(K::cast, value(any_type()), static_cast<DType>(between(0, kDTypeCount - 1)));
    } else if (kind < 0.14) {
      bitcast();
    } else if (kind < 0.2) {
      value(any_type());
    } else {
      operation();
    }
  }

  void bitcast() {
    static const std::vector<std::pair<DType, DType>> kPairs = {
        {DType::f32, DType::i32}, {DType::f64, DType::i64}, {DType::i32, DType::f32},
        {DType::i64, DType::f64}, {DType::u8, DType::i8},   {DType::i8, DType::u8},
    };
    auto [from, to] = pick(kPairs);
    Ref x = value(from);
    if (is_float(from)) {  // avoids NaN, whose bits are not specified
      Ref nan = push_op(ops::isnan, {x});
      Ref zero = constant(from, Scalar::of(0.0));
      x = push_op(ops::where, {nan, zero, x});
    }
    unary(K::bitcast, x, to);
  }

  void operation() {
    static const auto rows = [] {
      std::vector<OpId> ids;
      for (OpId id = 0; id < op_count(); ++id)
        if (op(id).kind == tenon::Kind::map && op(id).attr_specs.empty()) ids.push_back(id);
      return ids;
    }();
    for (int tries = 0; tries < 20; ++tries) {
      OpId id = pick(rows);
      DType type = any_type();
      std::vector<DType> types(op(id).arity, type);
      if (id == ops::where) types[0] = DType::b8;
      if (!scalar_result_type(id, types).ok()) continue;
      // Skips rows whose last operand is a number of terms, as of a polynomial: a random number of terms takes too long.
      if (calls_host(op(id), type) && (!calls_ || (op(id).arity > 1 && is_float(type)))) continue;
      if (!calls_ && id == ops::lgamma && type == DType::f64) continue;  // its body calls the host
      std::vector<Ref> args;
      for (DType t : types) args.push_back(value(t));
      push_op(id, args);
      const bool can = !op(id).fault.what.empty() && !is_float(type) && !spelling(op(id), type).empty();
      if (checks_ && can && faults_ < 2) {
        block_->back().fault = fault_number_;
        ++faults_;
      }
      return;
    }
  }

  // ---- memory ----
  // A term of an address: the factor as a number, or through a size that divides it.
  Term term(int64_t factor, Ref var) {
    if (!c_.sizes.empty() && chance(0.6)) {
      int size = static_cast<int>(between(0, c_.sizes.size() - 1));
      if (c_.sizes[size] > 0 && factor % c_.sizes[size] == 0) return {factor / c_.sizes[size], size, var};
    }
    return {factor, -1, var};
  }

  // An address, with the lowest and highest element that it reaches.
  struct Place {
    Address address;
    int64_t low = 0, high = 0;
  };
  void add(Place& p, int64_t stride, Ref var, int64_t extent) {
    p.address.push_back(term(stride, var));
    (stride < 0 ? p.low : p.high) += stride * std::max<int64_t>(extent - 1, 0);
  }
  Address finish(Place p, int64_t& length) {
    int64_t offset = -p.low + (chance(0.2) ? between(0, 3) : 0);
    if (offset != 0) p.address.push_back(term(offset, kNoRef));
    std::shuffle(p.address.begin(), p.address.end(), random_);
    length = std::max(length, p.high + offset + 1);
    return std::move(p.address);
  }

  Ref load(DType type) {
    if (!locals_.empty() && chance(0.4))
      if (Ref ref = load_local(type); ref != kNoRef) return ref;
    DType stored = type;
    if (type == DType::f32 && chance(0.4)) stored = narrow_type();
    std::vector<int> known;
    for (size_t i = 0; i < k_.buffers.size(); ++i)
      if (k_.buffers[i].role == Buffer::Role::in && k_.buffers[i].type == stored)
        known.push_back(static_cast<int>(i));
    Place p;
    int64_t stride = 1;
    for (size_t i = vars_.size(); i-- > 0;) {
      if (!chance(i + 1 == vars_.size() ? 0.85 : 0.6)) continue;
      if (chance(0.15)) stride = between(1, 7);
      add(p, chance(0.15) ? -stride : stride, vars_[i].ref, vars_[i].extent);
      stride *= std::max<int64_t>(vars_[i].extent, 1);
      if (stride > 500) stride = 1;
    }
    if (chance(0.12)) {
      int64_t count = between(1, 20);
      Ref index = value(DType::i64);
      index = push_op(ops::remainder, {index, constant(DType::i64, Scalar::of(count))});
      add(p, between(1, 3), index, count);
    }
    Stmt s;
    s.kind = K::load;
    s.buffer = !known.empty() && chance(0.5) ? pick(known) : buffer(Buffer::Role::in, stored);
    s.address = finish(std::move(p), lengths_[s.buffer]);
    return push(std::move(s), type);
  }

  Ref load_local(DType type) {
    const Local& local = pick(locals_);
    if (compute_type(k_.buffers[local.buffer].type) != type || local.length == 0) return kNoRef;
    Stmt s;
    s.kind = K::load;
    s.buffer = local.buffer;
    for (size_t i = vars_.size(); i-- > 0 && s.address.empty();) {
      if (vars_[i].extent > local.length || vars_[i].extent == 0) continue;
      if (chance(0.2))
        s.address = {term(vars_[i].extent - 1, kNoRef), term(-1, vars_[i].ref)};
      else
        s.address = {term(1, vars_[i].ref)};
    }
    return push(std::move(s), type);
  }

  // Stores to a new output that has one element per point of the par and simd axes and of some other axes.
  void store() {
    if (outputs_ == 8) return;
    Ref ref = kNoRef;
    for (size_t i = values_.size(); i-- > 0 && (ref == kNoRef || !unused(ref) || chance(0.3));)
      if (ref == kNoRef || unused(values_[i])) ref = values_[i];
    if (ref == kNoRef) ref = new_value(any_type());
    use(ref);
    Place p;
    int64_t stride = chance(0.2) ? between(2, 3) : 1;
    std::vector<Var> order = vars_;
    if (chance(0.3)) std::shuffle(order.begin(), order.end(), random_);
    for (size_t i = order.size(); i-- > 0;) {
      if (!order[i].fixed && chance(0.2)) continue;
      add(p, chance(0.15) ? -stride : stride, order[i].ref, order[i].extent);
      stride *= std::max<int64_t>(order[i].extent, 1) + (chance(0.1) ? 1 : 0);
    }
    Stmt s;
    s.kind = K::store;
    s.buffer = buffer(Buffer::Role::out, storage(k_.types[ref]));
    s.address = finish(std::move(p), lengths_[s.buffer]);
    s.args = {ref};
    block_->push_back(std::move(s));
    ++outputs_;
  }

  DType narrow_type() {
    static const std::vector<DType> kNarrow = {DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2};
    return pick(kNarrow);
  }
  DType storage(DType type) { return type == DType::f32 && chance(0.4) ? narrow_type() : type; }

  void store_local(const Axis& axis) {
    Ref ref = value(any_type());
    Stmt s;
    s.kind = K::store;
    s.buffer = buffer(Buffer::Role::local, storage(k_.types[ref]));
    k_.buffers[s.buffer].length = axis.extent;
    s.address = {Term{1, -1, axis.var}};
    s.args = {ref};
    block_->push_back(std::move(s));
  }

  int buffer(Buffer::Role role, DType type) {
    int number = static_cast<int>(k_.buffers.size());
    const char* letter = role == Buffer::Role::in ? "x" : role == Buffer::Role::out ? "y" : "t";
    k_.buffers.push_back({role, type, letter + std::to_string(number), {}});
    lengths_.push_back(1);
    return number;
  }

  // Moves locals behind the other buffers, in the buffer list and in every statement.
  void order_buffers() {
    std::vector<int> order(k_.buffers.size()), place(k_.buffers.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::shuffle(order.begin(), order.end(), random_);
    std::ranges::stable_partition(order, [&](int i) { return k_.buffers[i].role != Buffer::Role::local; });
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = static_cast<int>(i);
      buffers.push_back(k_.buffers[order[i]]);
      if (buffers.back().role != Buffer::Role::local) c_.lengths.push_back(lengths_[order[i]]);
    }
    k_.buffers = std::move(buffers);
    renumber(k_.body, place);
  }
  static void renumber(Block& block, const std::vector<int>& place) {
    for (Stmt& s : block) {
      if (s.buffer >= 0) s.buffer = place[s.buffer];
      renumber(s.body, place);
    }
  }

  void fill() {
    for (size_t i = 0; i < c_.lengths.size(); ++i) {
      const Buffer& b = k_.buffers[i];
      size_t bytes = size_of(b.type);
      std::vector<char>& data = c_.data.emplace_back(c_.lengths[i] * bytes, static_cast<char>(0x5B));
      if (b.role == Buffer::Role::out) continue;
      bool tame = chance(0.6);
      for (int64_t e = 0; e < c_.lengths[i]; ++e) {
        uint64_t bits = element(b.type, tame);
        std::memcpy(data.data() + e * bytes, &bits, bytes);
      }
    }
  }
  uint64_t element(DType t, bool tame) {
    if (is_bool(t)) return between(0, 1);
    if (!is_float(t))
      return tame ? between(-20, 20) : chance(0.3) ? static_cast<uint64_t>(literal(t).i) : random_();
    double x = tame ? std::uniform_real_distribution<double>(-4, 4)(random_) : wild_float();
    if (!tame && chance(0.3)) {  // random bits, except for a signalling NaN, which a conversion would change
      uint64_t bits = random_();
      if (t == DType::f64 && !std::isnan(std::bit_cast<double>(bits))) return bits;
      if (t == DType::f32 && !std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits)))) return bits;
    }
    if (t == DType::f64) return std::bit_cast<uint64_t>(x);
    float f = static_cast<float>(x);
    return t == DType::f32 ? std::bit_cast<uint32_t>(f) : narrowed(t, f);
  }

  std::mt19937_64 random_;
  Kernel k_;
  KernelCase c_;
  std::vector<int64_t> lengths_;  // per buffer, in order of creation
  std::vector<Ref> values_;       // in scope
  std::vector<bool> used_;        // per value
  std::vector<Var> vars_;         // in scope
  std::vector<Tile> tiles_;       // loop variables in scope that count tiles
  std::vector<Local> locals_;     // locals written in this block or an enclosing one
  DType main_type_ = DType::f32;  // the type of about half of the values
  Block* block_ = nullptr;
  bool simd_ = false;      // inside a simd loop
  int64_t budget_ = 3000;  // the factor by which further loops may multiply the iterations
  int outputs_ = 0;
  const bool checks_;
  const bool calls_;
  int faults_ = 0;  // the number of statements that check
  const int fault_number_ = static_cast<int>(between(1, 3));
};

// checks: some statements check for faults. calls: allows rows that call the host, which only the CPU runs.
inline KernelCase random_kernel(uint64_t seed, bool checks = false, bool calls = false) {
  return KernelGenerator(seed, checks, calls).run();
}

}  // namespace tenon::jit
