// See cuda_text.h.
#include "jit/cuda/cuda_text.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "jit/cuda/emit_cuda.h"
#include "jit/kernel/kernel.h"

namespace tenon::jit {

std::string_view cuda_type(DType type) {
  switch (type) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::f8e4m3fn:
    case DType::f8e5m2: return "float";
    case DType::f64: return "double";
    case DType::i64: return "tn_i64";
    case DType::i32: return "tn_i32";
    case DType::i16: return "tn_i16";
    case DType::i8: return "tn_i8";
    case DType::u8: return "tn_u8";
    case DType::b8: return "bool";
  }
  return "";
}

std::string_view cuda_memory_type(DType type) {
  switch (type) {
    case DType::bf16: return "tn_bf16";
    case DType::f16: return "tn_f16";
    case DType::f8e4m3fn: return "tn_f8e4m3fn";
    case DType::f8e5m2: return "tn_f8e5m2";
    case DType::b8: return "tn_b8";
    default: return cuda_type(type);
  }
}

std::string cuda_literal(DType type, const Scalar& value) {
  if (is_bool(type)) return (value.is_int ? value.i != 0 : value.d != 0) ? "true" : "false";
  if (!is_float(type)) {
    const int64_t i = value.is_int ? value.i : static_cast<int64_t>(value.d);
    const std::string text = i == std::numeric_limits<int64_t>::min()
                                 ? "(-9223372036854775807ll - 1)"
                                 : std::to_string(i) + (type == DType::i64 ? "ll" : "");
    return type == DType::i64 ? text : std::string(cuda_type(type)) + "(" + text + ")";
  }
  const bool is_double = type == DType::f64;
  const double d = is_double ? value.as_double() : static_cast<double>(static_cast<float>(value.as_double()));
  auto wide = [&](const std::string& text) { return is_double ? "(double)" + text : text; };
  if (std::isnan(d)) return wide("tn_as_float(0x7fc00000u)");
  if (std::isinf(d)) return wide(d < 0 ? "(-tn_inf())" : "tn_inf()");
  char text[48];
  std::snprintf(text, sizeof text, is_double ? "%a" : "%af", d);
  return std::signbit(d) ? "(" + std::string(text) + ")" : text;
}

std::string cuda_index(int64_t value) {
  return value >= 0 && value < (int64_t{1} << 31) ? std::to_string(value)
                                                  : "(tn_ix)(" + std::to_string(value) + "ll)";
}

bool cuda_spells(const Op& row, DType last) {
  const std::string_view prelude = cuda_prelude();
  const std::string name(row.name);
  auto has = [&](const std::string& text) { return prelude.find(text) != prelude.npos; };
  const bool of_float = has("float tn_" + name + "(") || has("TN_FLOAT(" + name + ",");
  if (is_float(last) && row.math) return of_float;
  if (!is_float(last) && spelling(row, last).empty()) return false;
  return of_float || has(" tn_" + name + "(");
}

}  // namespace tenon::jit
