// DType: the element types, as one table. Narrow floats compute and accumulate in f32. Floats of 8 bits are
// only stored, cast and moved, as in PyTorch. Tested by tests/unit/ir/ir_test.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace tenon {

// X(name, bytes, is_float, is_signed, DLPack code, DLPack bits)
#define TENON_DTYPES(X)             \
  X(f64, 8, true, true, 2, 64)      \
  X(f32, 4, true, true, 2, 32)      \
  X(f16, 2, true, true, 2, 16)      \
  X(bf16, 2, true, true, 4, 16)     \
  X(f8e4m3fn, 1, true, true, 10, 8) \
  X(f8e5m2, 1, true, true, 12, 8)   \
  X(i64, 8, false, true, 0, 64)     \
  X(i32, 4, false, true, 0, 32)     \
  X(i16, 2, false, true, 0, 16)     \
  X(i8, 1, false, true, 0, 8)       \
  X(u8, 1, false, false, 1, 8)      \
  X(b8, 1, false, false, 6, 8)

// b8 prints and parses as "bool".
enum class DType : uint8_t {
#define X(name, ...) name,
  TENON_DTYPES(X)
#undef X
};

struct DTypeInfo {
  std::string_view name;
  int bytes;
  bool is_float;
  bool is_signed;
  uint8_t dlpack_code;
  uint8_t dlpack_bits;
};

inline constexpr DTypeInfo kDTypes[] = {
#define X(name, bytes, is_float, is_signed, code, bits) {#name, bytes, is_float, is_signed, code, bits},
    TENON_DTYPES(X)
#undef X
};
inline constexpr int kDTypeCount = sizeof(kDTypes) / sizeof(kDTypes[0]);

constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<int>(t)]; }
constexpr std::string_view name(DType t) { return t == DType::b8 ? "bool" : info(t).name; }
constexpr int size_of(DType t) { return info(t).bytes; }
constexpr bool is_float(DType t) { return info(t).is_float; }
constexpr bool is_bool(DType t) { return t == DType::b8; }
constexpr bool is_integer(DType t) { return !is_float(t) && !is_bool(t); }
// Narrower than f32.
constexpr bool is_narrow(DType t) { return is_float(t) && size_of(t) < 4; }
// Only stored, cast and moved; computing with it needs a cast first.
constexpr bool is_storage(DType t) { return is_float(t) && size_of(t) == 1; }
// The dtype values of type t have inside a kernel: f32 for narrow floats, else t.
constexpr DType compute_type(DType t) { return is_narrow(t) ? DType::f32 : t; }
// The least and the greatest value as a double: infinities for floats; 2^63 stands for the greatest i64.
constexpr double lowest(DType t) {
  if (is_float(t)) return -std::numeric_limits<double>::infinity();
  return info(t).is_signed ? -static_cast<double>(uint64_t{1} << (8 * size_of(t) - 1)) : 0;
}
constexpr double highest(DType t) {
  if (is_float(t)) return std::numeric_limits<double>::infinity();
  if (is_bool(t)) return 1;
  return static_cast<double>(uint64_t{1} << (8 * size_of(t) - (info(t).is_signed ? 1 : 0))) - 1;
}

inline std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  return std::nullopt;
}
inline std::optional<DType> dtype_from_dlpack(uint8_t code, uint8_t bits) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].dlpack_code == code && kDTypes[i].dlpack_bits == bits) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace tenon
