// See llvm_text.h. bf16 is converted with integer instructions on every machine, because those of the
// hardware flush denormals. A float that no integer can hold becomes the lowest integer, as with cvttss2si;
// LLVM's own fptosi would be poison.
#include "jit/llvm/llvm_text.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "src/base/text.h"

namespace tenon::jit {
namespace {

constexpr std::string_view kFromHalf = "$h = bitcast $i16 $0 to $half\nfpext $half $h to $float";
constexpr std::string_view kToHalf = "$h = fptrunc $float $0 to $half\nbitcast $half $h to $i16";
constexpr std::string_view kFromBf16 =
    "$w = zext $i16 $0 to $i32\n$s = shl $i32 $w, $i32[16]\nbitcast $i32 $s to $float";
// Rounds to nearest, ties to even: adds 0x7fff and the lowest bit that stays. A NaN keeps its upper bits and
// becomes quiet.
constexpr std::string_view kRoundBf16 =
    "$b = bitcast $float $0 to $i32\n"
    "$u = lshr $i32 $b, $i32[16]\n"
    "$o = and $i32 $u, $i32[1]\n"
    "$h = add $i32 $o, $i32[32767]\n"
    "$r = add $i32 $b, $h\n"
    "$q = or $i32 $b, $i32[4194304]\n"
    "$n = fcmp uno $float $0, $0\n"
    "$k = select $C $n, $i32 $q, $i32 $r\n";
constexpr std::string_view kToBf16 = "$t = lshr $i32 $k, $i32[16]\ntrunc $i32 $t to $i16";
constexpr std::string_view kKeepBf16 = "$t = and $i32 $k, $i32[-65536]\nbitcast $i32 $t to $float";
constexpr std::string_view kKeepHalf = "$h = fptrunc $float $0 to $half\nfpext $half $h to $float";

// Floats of 8 bits: bits of the mantissa, bias of the exponent, and the bits of the result for larger
// numbers.
struct Narrowest {
  int mantissa, bias, most;
};
constexpr Narrowest kE4M3fn{3, 7, 0x7e}, kE5M2{2, 15, 0x7c};

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  for (size_t at = 0; (at = out.find(from, at)) != out.npos; at += to.size())
    out.replace(at, from.size(), to);
  return out;
}

// $w: the bits as i32, rounded to nearest, ties to even. A subnormal result is rounded by the addition of a
// number whose last place equals that of the subnormals.
std::string round_narrowest(const Narrowest& n) {
  const int dropped = 23 - n.mantissa, magic = 24 - n.bias - n.mantissa;
  const std::pair<std::string_view, int64_t> words[] = {
      {"DROPPED", dropped},
      {"HALF", (int64_t{1} << (dropped - 1)) - 1 - (int64_t{127 - n.bias} << 23)},
      {"MAGIC_BITS", int64_t{127 + magic} << 23},
      {"MAGIC", int64_t{1} << magic},
      {"NORMAL", int64_t{128 - n.bias} << 23},
      {"MOST", n.most}};
  std::string text =
      "$b = bitcast $float $0 to $i32\n"
      "$n = fcmp uno $float $0, $0\n"
      "$a = and $i32 $b, $i32[2147483647]\n"
      "$u = lshr $i32 $a, $i32[DROPPED]\n"
      "$o = and $i32 $u, $i32[1]\n"
      "$h = add $i32 $o, $i32[HALF]\n"
      "$r = add $i32 $a, $h\n"
      "$q = lshr $i32 $r, $i32[DROPPED]\n"
      "$x = bitcast $i32 $a to $float\n"
      "$y = fadd $float $x, $float[MAGIC.0]\n"
      "$z = bitcast $float $y to $i32\n"
      "$d = sub $i32 $z, $i32[MAGIC_BITS]\n"
      "$l = icmp ult $i32 $a, $i32[NORMAL]\n"
      "$m = select $C $l, $i32 $d, $i32 $q\n"
      "$s = icmp ult $i32 $m, $i32[MOST]\n"
      "$c = select $C $s, $i32 $m, $i32 $i32[MOST]\n"
      "$k = select $C $n, $i32 $i32[127], $i32 $c\n"
      "$p = lshr $i32 $b, $i32[24]\n"
      "$g = and $i32 $p, $i32[128]\n"
      "$w = or $i32 $k, $g\n";
  for (const auto& [word, value] : words) text = replaced(text, word, std::to_string(value));
  return text;
}

// Widens $w to f32. e5m2 is the upper half of f16.
constexpr std::string_view kWidenE5M2 =
    "$s = shl $i32 $w, $i32[8]\n"
    "$t = trunc $i32 $s to $i16\n"
    "$h = bitcast $i16 $t to $half\n"
    "fpext $half $h to $float";
constexpr std::string_view kWidenE4M3fn =
    "$a = and $i32 $w, $i32[127]\n"
    "$s = shl $i32 $a, $i32[20]\n"
    "$n = add $i32 $s, $i32[1006632960]\n"
    "$d = add $i32 $s, $i32[1015021568]\n"
    "$x = bitcast $i32 $d to $float\n"
    "$y = fsub $float $x, $float[0.015625]\n"
    "$z = bitcast $float $y to $i32\n"
    "$l = icmp ult $i32 $a, $i32[8]\n"
    "$m = select $C $l, $i32 $z, $i32 $n\n"
    "$q = icmp eq $i32 $a, $i32[127]\n"
    "$k = select $C $q, $i32 $i32[2143289344], $i32 $m\n"
    "$p = and $i32 $w, $i32[128]\n"
    "$g = shl $i32 $p, $i32[24]\n"
    "$v = or $i32 $k, $g\n"
    "bitcast $i32 $v to $float";

const Narrowest& narrowest(DType type) { return type == DType::f8e5m2 ? kE5M2 : kE4M3fn; }
std::string_view widen_of(DType type) { return type == DType::f8e5m2 ? kWidenE5M2 : kWidenE4M3fn; }

bool is_llvm_type(std::string_view word) {
  return word == "float" || word == "double" || word == "half" || word == "i1" || word == "i8" ||
         word == "i16" || word == "i32" || word == "i64";
}

// Float to integer with the 32- or 64-bit instruction, whose result out of range is the lowest integer.
std::string float_to_int(DType to) {
  bool wide = to == DType::i64;
  std::string word = wide ? "$i64" : "$i32";
  std::string text = "$m = call $T @llvm.fabs.$N($T $0)\n";
  text += std::string("$in = fcmp olt $T $m, $[") + (wide ? "9223372036854775808.0" : "2147483648.0") + "]\n";
  text += "$v = fptosi $T $0 to " + word + "\n";
  std::string select = "select $C $in, " + word + " $v, " + word + " " + word +
                       (wide ? "[-9223372036854775808]" : "[-2147483648]");
  if (size_of(to) >= 4) return text + select;
  return text + "$w = " + select + "\ntrunc $i32 $w to $R";
}

}  // namespace

std::string_view register_type(DType type) {
  switch (type) {
    case DType::f64: return "double";
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3fn:
    case DType::f8e5m2: return "float";
    case DType::b8: return "i1";
    default: return memory_type(type);
  }
}

std::string_view memory_type(DType type) {
  if (type == DType::f64) return "double";
  if (type == DType::f32) return "float";
  switch (size_of(type)) {
    case 1: return "i8";
    case 2: return "i16";
    case 4: return "i32";
    default: return "i64";
  }
}

std::string at_lanes(std::string_view type, int lanes) {
  if (lanes == 1) return std::string(type);
  return "<" + std::to_string(lanes) + " x " + std::string(type) + ">";
}

std::string constant_at_lanes(std::string_view type, std::string_view literal, int lanes) {
  if (lanes == 1) return std::string(literal);
  return "splat (" + std::string(type) + " " + std::string(literal) + ")";
}

std::string mangled(DType type, int lanes) {
  std::string_view word = register_type(type);
  std::string name = word == "double" ? "f64" : word == "float" ? "f32" : std::string(word);
  return lanes == 1 ? name : "v" + std::to_string(lanes) + name;
}

std::string literal(DType type, const Scalar& value) {
  if (is_bool(type)) return (value.is_int ? value.i != 0 : value.d != 0) ? "true" : "false";
  if (!is_float(type)) {
    int64_t v = value.is_int ? value.i : static_cast<int64_t>(value.d);
    int unused = 64 - 8 * size_of(type);
    return std::to_string(static_cast<int64_t>(static_cast<uint64_t>(v) << unused) >> unused);
  }
  double v = value.as_double();
  if (type != DType::f64) v = static_cast<float>(v);
  char text[40];
  std::snprintf(text, sizeof text, "%.6e", v);
  // LLVM accepts a decimal only if it is exact.
  if (!std::isfinite(v) || std::bit_cast<uint64_t>(std::strtod(text, nullptr)) != std::bit_cast<uint64_t>(v))
    std::snprintf(text, sizeof text, "0x%016llX",
                  static_cast<unsigned long long>(std::bit_cast<uint64_t>(v)));
  return text;
}

std::string expand(const Spelling& spelling, std::span<const std::string> operands,
                   const std::function<std::string(const std::string& line)>& emit) {
  std::map<std::string, std::string, std::less<>> temporaries;
  const std::string_view element = register_type(spelling.operand);

  auto expand_line = [&](auto&& self, std::string_view text) -> std::string {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (text[at] != '$') {
        out += text[at++];
        continue;
      }
      size_t end = ++at;
      while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
      std::string_view word = text.substr(at, end - at);
      at = end;
      std::string_view type = word.empty() || word == "T" ? element : word;
      if ((word.empty() || word == "T" || is_llvm_type(word)) && at < text.size() && text[at] == '[') {
        size_t close = text.find(']', at);
        TENON_CHECK(close != text.npos, "llvm spelling without ]: " + std::string(text));
        out += constant_at_lanes(type, self(self, text.substr(at + 1, close - at - 1)), spelling.lanes);
        at = close + 1;
      } else if (word == "T" || is_llvm_type(word)) {
        out += at_lanes(type, spelling.lanes);
      } else if (word == "R") {
        out += at_lanes(register_type(spelling.result), spelling.lanes);
      } else if (word == "C") {
        out += at_lanes("i1", spelling.lanes);
      } else if (word == "N") {
        out += mangled(spelling.operand, spelling.lanes);
      } else if (word == "B") {
        out += std::to_string(is_bool(spelling.operand) ? 1 : 8 * size_of(compute_type(spelling.operand)));
      } else if (word.size() == 1 && is_digit(word[0])) {
        size_t index = static_cast<size_t>(word[0] - '0');
        TENON_CHECK(index < operands.size(), "llvm spelling wants operand " + std::string(word));
        out += operands[index];
      } else {
        auto it = temporaries.find(word);
        TENON_CHECK(it != temporaries.end(),
                    "llvm spelling uses $" + std::string(word) + " before it is defined");
        out += it->second;
      }
    }
    return out;
  };

  std::string_view rest = spelling.text;
  for (;;) {
    size_t newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    if (newline == rest.npos) {
      std::string value = expand_line(expand_line, line);
      return line.find(' ') == line.npos ? value : emit(value);  // "splat (i64 0)" is a value too
    }
    size_t equals = line.find(" = ");
    TENON_CHECK(line.starts_with('$') && equals != line.npos,
                "llvm spelling line defines nothing: " + std::string(line));
    std::string name(line.substr(1, equals - 1));
    temporaries[name] = emit(expand_line(expand_line, line.substr(equals + 3)));
    rest.remove_prefix(newline + 1);
  }
}

std::string load_template(DType memory) {
  if (memory == DType::f16) return std::string(kFromHalf);
  if (memory == DType::bf16) return std::string(kFromBf16);
  if (is_storage(memory)) return "$w = zext $i8 $0 to $i32\n" + std::string(widen_of(memory));
  if (memory == DType::b8) return "icmp ne $i8 $0, $i8[0]";
  return "$0";
}

std::string store_template(DType memory, bool is_bf16) {
  if (memory == DType::bf16 && is_bf16) return "$k = bitcast $float $0 to $i32\n" + std::string(kToBf16);
  if (memory == DType::f16) return std::string(kToHalf);
  if (memory == DType::bf16) return std::string(kRoundBf16) + std::string(kToBf16);
  if (is_storage(memory)) return round_narrowest(narrowest(memory)) + "trunc $i32 $w to $i8";
  if (memory == DType::b8) return "zext $C $0 to $i8";
  return "$0";
}

std::string cast_template(DType from, DType to) {
  from = compute_type(from);
  if (is_narrow(to)) {
    std::string text;
    if (from != DType::f32) text = "$f = " + cast_template(from, DType::f32) + "\n";
    const std::string round = to == DType::f16 ? std::string(kKeepHalf)
                              : to == DType::bf16
                                  ? std::string(kRoundBf16) + std::string(kKeepBf16)
                                  : round_narrowest(narrowest(to)) + std::string(widen_of(to));
    return text + (from == DType::f32 ? round : replaced(round, "$0", "$f"));
  }
  if (from == to) return "$0";
  if (is_float(from)) {
    if (is_float(to)) return size_of(to) > size_of(from) ? "fpext $T $0 to $R" : "fptrunc $T $0 to $R";
    if (is_bool(to)) return "fcmp une $T $0, $[0.0]";
    return float_to_int(to);
  }
  if (is_bool(to)) return "icmp ne $T $0, $[0]";
  bool is_signed = is_integer(from) && info(from).is_signed;
  if (is_float(to)) return is_signed ? "sitofp $T $0 to $R" : "uitofp $T $0 to $R";
  if (is_bool(from)) return "zext $T $0 to $R";
  if (size_of(from) == size_of(to)) return "$0";
  if (size_of(from) > size_of(to)) return "trunc $T $0 to $R";
  return is_signed ? "sext $T $0 to $R" : "zext $T $0 to $R";
}

}  // namespace tenon::jit
