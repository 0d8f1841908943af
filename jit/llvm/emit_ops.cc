// See emit_ops.h.
#include "jit/llvm/emit_ops.h"

#include <algorithm>
#include <bit>

#include "jit/analysis/lane_stride.h"
#include "jit/objects/host_call.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

bool is_bf16(const Stmt& constant) {
  const Scalar& c = constant.literal;
  const float value = c.is_int ? static_cast<float>(c.i) : static_cast<float>(c.d);
  return constant.type == DType::f32 && (std::bit_cast<uint32_t>(value) & 0xffff) == 0;
}

}  // namespace

// Lanes that do not exist have arbitrary operands, so they are masked.
void OpEmitter::emit_check(const Stmt& s, const std::vector<std::string>& operands, DType operand,
                           int lanes) {
  const std::string bad = expand_at(op(s.op).fault.llvm, operands, operand, DType::b8, lanes, "bad");
  f_.seldom(any_lane(bad, lanes, "bad", "bad.any"), "fault", lanes == 1,
            {"store atomic i32 " + std::to_string(s.fault) + ", ptr " + fault_ + " monotonic, align 4"});
}

void OpEmitter::emit_op(const Stmt& s) {
  if (s.op == ops::random_bits && emit_random_words(s)) return;
  auto [operands, lanes] = level(s.args);
  DType operand = compute_type(k_.types[s.args.back()]);
  std::string_view text = spelling(op(s.op), operand);
  if (text.empty()) return emit_host_call(s, operands, operand, lanes);
  if (s.op == ops::fmod && emit_remainder(s, operands, operand, lanes)) return;
  define(s.result, expand_at(text, operands, operand, compute_type(s.type), lanes, hint(s.result)), lanes);
  refs_[s.result].is_bf16 = op(s.op).picks && s.type == DType::f32 && std::ranges::all_of(s.args, [&](Ref r) {
                              return refs_[r].is_bf16 || is_bool(refs_[r].type);
                            });
  if (s.fault != 0) emit_check(s, operands, operand, lanes);
}

void OpEmitter::emit_scalar(const Stmt& s) {
  switch (s.kind) {
    case Stmt::Kind::op: return emit_op(s);
    case Stmt::Kind::cast: {
      const Value& v = refs_[s.args[0]];
      define(s.result,
             expand_at(cast_template(v.type, s.type), {v.text}, v.type, s.type, v.lanes, hint(s.result)),
             v.lanes);
      refs_[s.result].is_bf16 = s.type == DType::bf16;
      return;
    }
    case Stmt::Kind::bitcast: {
      const Value& v = refs_[s.args[0]];
      bool same = register_type(v.type) == register_type(s.type);
      define(
          s.result,
          expand_at(same ? "$0" : "bitcast $T $0 to $R", {v.text}, v.type, s.type, v.lanes, hint(s.result)),
          v.lanes);
      return;
    }
    case Stmt::Kind::constant:
      define(s.result, literal(compute_type(s.type), s.literal), 1);
      refs_[s.result].is_bf16 = is_bf16(s);
      return;
    case Stmt::Kind::size: return define(s.result, sizes_[s.size].text, 1);
    case Stmt::Kind::index: {
      if (s.args[0] != simd_.var) return define(s.result, refs_[s.args[0]].text, 1);
      std::string base = vector({simd_.base.text, DType::i64, 1});
      return define(
          s.result,
          f_.pure("add " + at_lanes("i64", w_) + " " + base + ", " + lane_numbers("i64"), hint(s.result)),
          w_);
    }
    default: TENON_CHECK(false, "no scalar instruction");
  }
}

// W / 2 blocks, from the first even place on, give the words of W consecutive places. If the first place is
// odd, these words belong to the lanes after it, and its own word is the last one of the previous block.
bool OpEmitter::emit_random_words(const Stmt& s) {
  const Value &place = refs_[s.args[0]], &seed = refs_[s.args[1]];
  if (place.lanes == 1 || seed.lanes > 1 || lane_step(k_, s.args[0], simd_.var) != 1) return false;
  const int blocks = w_ / 2;
  const std::string halves = at_lanes("i64", blocks), words = at_lanes("i32", w_), name = hint(s.result);
  auto all = [&](const std::string& text) { return spread("i64", text, blocks); };
  auto philox = [&](const std::string& counter, int lanes) {
    const std::string high = f_.pure("and i64 " + seed.text + ", -4294967296");
    const std::string mixed =
        f_.pure("xor " + at_lanes("i64", lanes) + " " + counter + ", " + (lanes > 1 ? all(high) : high));
    return expand_at(spelling(op(ops::philox), DType::i64), {mixed, lanes > 1 ? all(seed.text) : seed.text},
                     DType::i64, DType::i64, lanes, name);
  };
  std::string numbers = "<";
  for (int b = 0; b < blocks; ++b) numbers += (b ? ", i64 " : "i64 ") + std::to_string(b);
  const std::string first =
      f_.pure("extractelement " + at_lanes("i64", w_) + " " + place.text + ", i64 0", "place");
  const std::string even = f_.pure("lshr i64 " + f_.pure("add i64 " + first + ", 1") + ", 1");
  const std::string counter = f_.pure("add " + halves + " " + all(even) + ", " + numbers + ">");
  std::vector<Carried> carried{
      {words, name, f_.pure("bitcast " + halves + " " + philox(counter, blocks) + " to " + words)}};
  // Vectors begin at multiples of W, unless their axis starts anywhere.
  const bool even_place =
      definition(k_.body, s.args[0])->kind == Stmt::Kind::index && axis_of(k_.body, simd_.var)->of == kNoRef;
  const Int odd = even_place ? Int(0) : Int(f_.pure("and i64 " + first + ", 1"));
  f_.when_less(name + ".odd", 0, odd, true, carried, [&] {
    const std::string before = philox(f_.pure("lshr i64 " + first + ", 1"), 1);
    const std::string own = f_.pure("trunc i64 " + f_.pure("lshr i64 " + before + ", 32") + " to i32"),
                      last = f_.pure("insertelement " + words + " poison, i32 " + own + ", i64 0");
    carried[0].value = shuffle(words, carried[0].value, last, w_, [&](int l) { return l ? l - 1 : w_; });
  });
  define(s.result, carried[0].value, w_);
  return true;
}

std::string OpEmitter::call_host(const Op& row, const std::vector<std::string>& operands, DType operand,
                                 int lanes, const std::string& name) {
  const HostClass c = host_class(row, operand);
  const bool widened = register_type(c.type) != register_type(operand);
  const std::string type = at_lanes(register_type(c.type), lanes);
  auto convert = [&](const std::string& value, DType from, DType to) {
    return widened ? expand_at(cast_template(from, to), {value}, from, to, lanes, name) : value;
  };
  if (call_stage_.empty())
    call_stage_ =
        f_.entry("alloca [" + std::to_string(kMostHostOperands * w_) + " x i64], align 64", "calls");
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string at =
        offset_pointer(register_type(c.type), call_stage_, static_cast<int64_t>(i) * lanes);
    f_.statement("store " + type + " " + convert(operands[i], operand, c.type) + ", ptr " + at + ", align 8");
  }
  const std::string function = "@" + std::string(kHostPrefix) + std::string(c.suffix) + std::string(row.name);
  const std::string caller = "@" + std::string(c.caller);
  const Int count = lanes == 1 ? Int(1) : simd_.masked ? simd_.count : Int(lanes);
  f_.statement("call void " + caller + "(ptr " + function + ", ptr " + call_stage_ + ", i64 " +
               std::to_string(operands.size()) + ", i64 " + std::to_string(lanes) + ", i64 " + count.text +
               ")");
  declared_.insert("declare dso_local void " + caller + "(ptr, ptr, i64, i64, i64)\n");
  declared_.insert("declare dso_local void " + function + "()\n");
  return convert(f_.here("load " + type + ", ptr " + call_stage_ + ", align 8", name), c.type, operand);
}

std::string OpEmitter::call_host_if(std::string slow, const std::string& otherwise, const Op& row,
                                    const std::vector<std::string>& operands, DType operand, int lanes,
                                    const std::string& name) {
  const std::string any = f_.pure("zext i1 " + any_lane(slow, lanes) + " to i64");
  std::vector<Carried> carried{{at_lanes(register_type(operand), lanes), name, otherwise}};
  f_.when_less(name + ".far", 0, Int(any), true, carried,
               [&] { carried[0].value = call_host(row, operands, operand, lanes, name); });
  return carried[0].value;
}

void OpEmitter::emit_host_call(const Stmt& s, const std::vector<std::string>& operands, DType operand,
                               int lanes) {
  const Op& row = op(s.op);
  const std::string name = hint(s.result);
  TENON_CHECK(calls_host(row, operand) && std::ssize(operands) <= kMostHostOperands,
              "no LLVM spelling: " + print_line(k_, s));
  if (!row.rare) return define(s.result, call_host(row, operands, operand, lanes, name), lanes);
  const std::string slow = expand_at("fcmp uno $T $0, $0", {operands[0]}, operand, DType::b8, lanes, name);
  define(s.result, call_host_if(slow, operands[0], row, operands, operand, lanes, name), lanes);
}

// Let q = trunc(a / b) be below 2^mantissa. Then a - q b is exact. It is the result or, if the division
// rounded up and q is one too large, the result minus b. Larger quotients, infinities and NaN are left to the
// host.
bool OpEmitter::emit_remainder(const Stmt& s, const std::vector<std::string>& operands, DType operand,
                               int lanes) {
  if (lanes == 1 || isa_ == Isa::sse2 || !is_float(operand)) return false;
  const std::string name = hint(s.result);
  auto at_all = [&](std::string_view text, const std::vector<std::string>& values, DType result) {
    return expand_at(text, values, operand, result, lanes, name);
  };
  const std::string a = at_all("call $T @llvm.fabs.$N($T $0)", {operands[0]}, operand),
                    b = at_all("call $T @llvm.fabs.$N($T $0)", {operands[1]}, operand),
                    quotient = at_all("fdiv $T $0, $1", {a, b}, operand);
  // Every integer below this limit is a number of this type.
  const std::string most = operand == DType::f64 ? "9007199254740992.0" : "16777216.0";
  std::string slow = at_all("$c = fcmp olt $T $0, $[" + most +
                                "]\n"
                                "$d = fcmp olt $T $1, $[0x7FF0000000000000]\n"
                                "$e = and $C $c, $d\nxor $C $e, $i1[true]",
                            {quotient, b}, DType::b8);
  const std::string rest = at_all(
      "$t = call $T @llvm.trunc.$N($T $0)\n$m = fneg $T $t\n"
      "$r = call $T @llvm.fma.$N($T $m, $T $2, $T $1)\n"
      "$n = fcmp olt $T $r, zeroinitializer\n$p = fadd $T $r, $2\n"
      "$x = select $C $n, $T $p, $T $r\n"
      "call $T @llvm.copysign.$N($T $x, $T $3)",
      {quotient, a, b, operands[0]}, operand);
  define(s.result, call_host_if(slow, rest, op(s.op), operands, operand, lanes, name), lanes);
  return true;
}

std::string OpEmitter::host_functions() const {
  std::string text;
  for (const std::string& line : declared_) text += line;
  return text;
}

}  // namespace tenon::jit
