// interp: runs a kernel one scalar at a time, in the order of its text; defines what a kernel means. Knows
// nothing of vectors except the order of a simd reduce. Expands math bodies first, so that a map gives the
// same bits as machine code. If an address is wrong, outputs may have been written already. Tested by
// tests/unit/jit/kernel/kernel_test.cc.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <span>

#include "jit/kernel/kernel.h"
#include "src/base/convert.h"
#include "src/ir/narrow.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

// The bits of a scalar of a known dtype: f64 as is, f32 in the low half, integers sign or zero extended, bool
// 0 or 1.
using Bits = int64_t;

float as_f32(Bits v) { return std::bit_cast<float>(static_cast<uint32_t>(v)); }
double as_f64(Bits v) { return std::bit_cast<double>(v); }
Bits of_f32(float x) { return std::bit_cast<uint32_t>(x); }
Bits of_f64(double x) { return std::bit_cast<int64_t>(x); }
double as_double(Bits v, DType t) {
  return t == DType::f64 ? as_f64(v) : t == DType::f32 ? as_f32(v) : static_cast<double>(v);
}
Bits of_double(double x, DType t) { return t == DType::f64 ? of_f64(x) : of_f32(static_cast<float>(x)); }

Bits wrap(int64_t v, DType t) {
  switch (t) {
    case DType::i32: return static_cast<int32_t>(v);
    case DType::i16: return static_cast<int16_t>(v);
    case DType::i8: return static_cast<int8_t>(v);
    case DType::u8: return static_cast<uint8_t>(v);
    case DType::b8: return v & 1;
    default: return v;
  }
}

Bits to_int(double x, DType t) {
  switch (t) {
    case DType::i32: return float_to_int<int32_t>(x);
    case DType::i16: return float_to_int<int16_t>(x);
    case DType::i8: return float_to_int<int8_t>(x);
    case DType::u8: return float_to_int<uint8_t>(x);
    default: return float_to_int<int64_t>(x);
  }
}

Bits of_scalar(const Scalar& s, DType t) { return is_float(t) ? of_double(s.as_double(), t) : wrap(s.i, t); }

constexpr size_t kMaxArity = 8;

// The meaning of a map row on scalars. The last operand decides the operand class.
Bits apply(const Op& row, std::span<const Bits> args, std::span<const DType> types, DType result) {
  DType last = types.back();
  if (!is_float(last)) {
    TENON_CHECK(row.eval_int, std::string(row.name));
    return wrap(row.eval_int(args.data()), result);
  }
  if (last == DType::f32 && row.eval_f32) {
    float operands[kMaxArity];
    for (size_t i = 0; i < args.size(); ++i) operands[i] = static_cast<float>(as_double(args[i], types[i]));
    float value = row.eval_f32(operands);
    return is_float(result) ? of_f32(value) : wrap(value != 0, result);
  }
  TENON_CHECK(row.eval, std::string(row.name));
  double operands[kMaxArity];
  for (size_t i = 0; i < args.size(); ++i) operands[i] = as_double(args[i], types[i]);
  double value = row.eval(operands);
  return is_float(result) ? of_double(value, result) : wrap(static_cast<int64_t>(value), result);
}

Bits read(const void* base, int64_t i, DType t) {
  auto at = [&]<class T>(T) {
    T v;
    std::memcpy(&v, static_cast<const char*>(base) + i * sizeof(T), sizeof(T));
    return v;
  };
  switch (t) {
    case DType::f64: return at(int64_t{});
    case DType::f32: return at(uint32_t{});
    case DType::f16:
    case DType::bf16: return of_f32(widened(t, at(uint16_t{})));
    case DType::f8e4m3fn:
    case DType::f8e5m2: return of_f32(widened(t, at(uint8_t{})));
    case DType::i64: return at(int64_t{});
    case DType::i32: return at(int32_t{});
    case DType::i16: return at(int16_t{});
    case DType::i8: return at(int8_t{});
    case DType::u8: return at(uint8_t{});
    case DType::b8: return at(uint8_t{}) != 0;
  }
  return 0;
}

void write(void* base, int64_t i, DType t, Bits v) {
  if (is_narrow(t)) v = narrowed(t, as_f32(v));
  std::memcpy(static_cast<char*>(base) + i * size_of(t), &v, size_of(t));  // little endian: the low bytes
}

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, const std::vector<BufferView>& views, const std::vector<int64_t>& sizes,
              int lanes, int32_t* fault)
      : k_(kernel),
        sizes_(sizes),
        lanes_(lanes),
        views_(views),
        values_(kernel.types.size()),
        fault_(fault) {}

  Status run() {
    for (const Buffer& b : k_.buffers) {
      if (b.role != Buffer::Role::local) continue;
      int64_t length = extent_value(b.length, sizes_.data());
      if (length < 0) return invalid("kernel @" + k_.name + ": the length of %" + b.name + " is negative");
      locals_.emplace_back(length * size_of(b.type));
      views_.push_back({nullptr, length});
    }
    tile_.resize(k_.types.size());
    const Stmt& par = k_.body[0];
    return each(par.axes, 0, [&](int64_t) {
      for (size_t i = 0, first = views_.size() - locals_.size(); i < locals_.size(); ++i) {
        std::ranges::fill(locals_[i], static_cast<char>(0xA5));  // a bool read back is true, a float -2.9e-16
        views_[first + i].data = locals_[i].data();
      }
      return block(par.body);
    });
  }

 private:
  using K = Stmt::Kind;

  // Runs body(index) for every point of the axes from `axis` on. index: position along the last axis, counted
  // from its first element.
  Status each(const std::vector<Axis>& axes, size_t axis, const std::function<Status(int64_t)>& body) {
    if (axis == axes.size()) return body(axes.empty() ? 0 : values_[axes.back().var] - first(axes.back()));
    const Axis& a = axes[axis];
    int64_t end = last(a);
    if (a.of == kNoRef && end < 0) return invalid("kernel @" + k_.name + ": an extent is negative");
    if (a.counts_tiles()) {
      const int64_t by = extent_value(a.by, sizes_.data());
      if (by < 1) return invalid("kernel @" + k_.name + ": tiles without elements");
      tile_[a.var] = {by, end};
      end = (end + by - 1) / by;
    }
    for (int64_t i = first(a); i < end; ++i) {
      values_[a.var] = i;
      TENON_TRY(each(axes, axis + 1, body));
    }
    return {};
  }
  int64_t first(const Axis& a) const {
    return a.of == kNoRef ? 0 : values_[a.of] * tile_[a.of].by / (a.counts_tiles() ? tile_[a.var].by : 1);
  }
  // In elements, also of an axis that counts tiles.
  int64_t last(const Axis& a) const {
    return a.of == kNoRef ? extent_value(a.extent, sizes_.data())
                          : std::min((values_[a.of] + 1) * tile_[a.of].by, tile_[a.of].end);
  }

  Status block(const Block& block) {
    for (const Stmt& s : block) TENON_TRY(statement(s));
    return {};
  }

  Status statement(const Stmt& s) {
    switch (s.kind) {
      case K::load: {
        TENON_ASSIGN(int64_t i, address(s));
        values_[s.result] = read(views_[s.buffer].data, i, k_.buffers[s.buffer].type);
        return {};
      }
      case K::store: {
        TENON_ASSIGN(int64_t i, address(s));
        write(views_[s.buffer].data, i, k_.buffers[s.buffer].type, values_[s.args[0]]);
        return {};
      }
      case K::loop:
        for (const Stmt& inner : s.body)
          if (inner.kind == K::scan) values_[inner.result] = identity(inner.op, inner.type);
        return each(s.axes, 0, [&](int64_t) { return block(s.body); });
      case K::reduce: return reduce(s);
      case K::scan:  // the result still holds the value of the previous iteration
        values_[s.result] = fold(s.op, s.type, values_[s.result], values_[s.args[0]]);
        return {};
      case K::op: {
        Bits args[kMaxArity];
        DType types[kMaxArity];
        size_t count = s.args.size();
        TENON_CHECK(count <= kMaxArity, "an op of " + std::to_string(count) + " operands");
        for (size_t i = 0; i < count; ++i) {
          args[i] = values_[s.args[i]];
          types[i] = k_.types[s.args[i]];
        }
        values_[s.result] = apply(op(s.op), {args, count}, {types, count}, s.type);
        if (s.fault == 0 || !op(s.op).fault.eval(args)) return {};
        if (!fault_)
          return invalid("kernel @" + k_.name + ": `" + print_line(k_, s) +
                         "`: " + std::string(op(s.op).fault.what));
        *fault_ = s.fault;
        return {};
      }
      case K::cast: values_[s.result] = cast(values_[s.args[0]], k_.types[s.args[0]], s.type); return {};
      case K::bitcast: values_[s.result] = bitcast(values_[s.args[0]], s.type); return {};
      case K::constant: values_[s.result] = of_scalar(s.literal, s.type); return {};
      case K::size: values_[s.result] = sizes_[s.size]; return {};
      case K::index: values_[s.result] = values_[s.args[0]]; return {};
      case K::par: break;
    }
    return {tenon::Code::internal, "a par within a par"};
  }

  Status reduce(const Stmt& s) {
    TENON_TRY(reduce(s, false));
    return s.online.empty() ? Status() : reduce(s, true);
  }
  // online: folds the results that follow the first, in a loop of their own; otherwise the others.
  Status reduce(const Stmt& s, bool online) {
    size_t width = s.simd ? static_cast<size_t>(lanes_) * s.unroll : 1;
    auto mine = [&](size_t r) { return online == (r < s.online.size() && s.online[r] != kPlain); };
    std::vector<std::vector<Bits>> sums;
    for (size_t r = 0; r < s.combine.size(); ++r)
      sums.emplace_back(width, identity(s.combine[r], k_.types[s.results[r]]));
    TENON_TRY(each(s.axes, 0, [&](int64_t index) {
      TENON_TRY(block(s.body));
      const size_t at = s.simd ? accumulator(s, index) : 0;
      for (size_t r = 0; r < sums.size(); ++r) {
        if (!mine(r)) continue;
        Bits& sum = sums[r][at];
        sum =
            fold(s.combine[r], k_.types[s.results[r]], sum, online ? following(s, r) : values_[s.yields[r]]);
      }
      return Status();
    }));
    for (size_t r = 0; r < sums.size(); ++r) {
      if (!mine(r)) continue;
      auto combine = [&](size_t into, size_t from) {
        sums[r][into] = fold(s.combine[r], k_.types[s.results[r]], sums[r][into], sums[r][from]);
      };
      size_t lanes = s.simd ? lanes_ : 1;
      for (int step = 1; s.simd && step < s.unroll; step *= 2)
        for (int vector = 0; vector < s.unroll; vector += 2 * step)
          for (size_t lane = 0; lane < lanes; ++lane)
            combine(vector * lanes + lane, (vector + step) * lanes + lane);
      for (size_t half = lanes / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; ++lane) combine(lane, lane + half);
      values_[s.results[r]] = sums[r][0];
    }
    return {};
  }
  // Returns lanes * vector + lane of the accumulator of element `index` of the simd axis; see kernel.h.
  size_t accumulator(const Stmt& s, int64_t index) const {
    const auto lanes = static_cast<int64_t>(lanes_);
    const int64_t lane = index % lanes, count = last(s.axes.back()) - first(s.axes.back());
    const int64_t vector = index - lane + lanes > count ? s.unroll - 1 : index / lanes % s.unroll;
    return static_cast<size_t>(vector * lanes + lane);
  }
  // Returns the contribution of an element to a result that follows the first one, which is known already.
  Bits following(const Stmt& s, size_t r) const {
    const DType t = k_.types[s.results[r]];
    Bits from = values_[s.results[0]];
    if (s.online[r] == ops::square) {
      double count = 1;
      for (const Axis& a : s.axes) count *= static_cast<double>(extent_value(a.extent, sizes_.data()));
      from = of_double(as_double(from, t) / count, t);
    }
    const Bits far = fold(ops::sub, t, values_[s.yields[0]], from);
    if (s.online[r] == ops::square) return fold(ops::mul, t, far, far);
    return fold(ops::mul, t, values_[s.yields[r]], apply(op(s.online[r]), {&far, 1}, {&t, 1}, t));
  }

  Bits identity(OpId combine, DType t) const { return of_scalar(*combine_identity(combine, t), t); }
  Bits fold(OpId combine, DType t, Bits a, Bits b) const {
    return apply(op(combine), std::array{a, b}, std::array{t, t}, t);
  }

  static Bits cast(Bits v, DType from, DType to) {
    if (is_float(to)) {
      // From i64 to f32 in one rounding.
      float narrow = is_float(from) ? static_cast<float>(as_double(v, from)) : static_cast<float>(v);
      if (to == DType::f64) return of_f64(as_double(v, from));
      if (to == DType::f32) return from == DType::f32 ? v : of_f32(narrow);
      return of_f32(rounded(to, narrow));
    }
    if (is_bool(to)) return is_float(from) ? as_double(v, from) != 0 : v != 0;
    return is_float(from) ? to_int(as_double(v, from), to) : wrap(v, to);
  }

  static Bits bitcast(Bits v, DType to) {
    return to == DType::f32   ? static_cast<Bits>(static_cast<uint32_t>(v))
           : to == DType::f64 ? v
                              : wrap(v, to);
  }

  Result<int64_t> address(const Stmt& s) const {
    // In 64 bits with wrap-around, like machine code.
    uint64_t sum = 0;
    for (const Term& t : s.address)
      sum += static_cast<uint64_t>(t.factor) * (t.size < 0 ? 1 : static_cast<uint64_t>(sizes_[t.size])) *
             (t.var == kNoRef ? 1 : static_cast<uint64_t>(values_[t.var]));
    int64_t i = static_cast<int64_t>(sum);
    int64_t length = views_[s.buffer].length;
    if (i >= 0 && i < length) return i;
    return invalid("kernel @" + k_.name + ": `" + print_line(k_, s) + "`: element " + std::to_string(i) +
                   " of %" + k_.buffers[s.buffer].name + ", which has " + std::to_string(length));
  }

  const Kernel& k_;
  const std::vector<int64_t>& sizes_;
  size_t lanes_;
  std::vector<BufferView> views_;  // the caller's buffers, then locals
  std::vector<std::vector<char>> locals_;
  std::vector<Bits> values_;
  struct Tile {
    int64_t by, end;  // elements of a tile, end of the tiled axis
  };
  int32_t* fault_;
  std::vector<Tile> tile_;  // per loop variable that counts tiles
};

}  // namespace

Status interpret(const Kernel& kernel, const std::vector<BufferView>& buffers,
                 const std::vector<int64_t>& sizes, int lanes, int32_t* fault) {
  TENON_TRY(verify(kernel));
  auto refuse = [&](const std::string& message) {
    return invalid("kernel @" + kernel.name + ": " + message);
  };
  size_t outer =
      std::ranges::count_if(kernel.buffers, [](const Buffer& b) { return b.role != Buffer::Role::local; });
  if (buffers.size() != outer)
    return refuse("takes " + std::to_string(outer) + " buffers, got " + std::to_string(buffers.size()));
  if (sizes.size() != kernel.sizes.size())
    return refuse("takes " + std::to_string(kernel.sizes.size()) + " sizes, got " +
                  std::to_string(sizes.size()));
  if (lanes < 1 || !std::has_single_bit(static_cast<unsigned>(lanes)))
    return refuse("lanes is a power of two");
  Kernel expanded = kernel;
  expand_math(expanded);
  return Interpreter(expanded, buffers, sizes, lanes, fault).run();
}

}  // namespace tenon::jit
