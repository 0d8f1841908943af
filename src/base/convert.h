// Conversions between number formats. The evaluator, the kernel interpreter and folded constants agree
// because they all call these functions. Bit arithmetic only, so the host's rounding and denormal modes have
// no effect.
//   f32 -> f16, bf16   round to nearest, ties to even; overflow is inf; NaN stays NaN (quiet, sign kept)
//   f32 -> f8          likewise, but f8e4m3fn has no inf: overflow is 448 (PyTorch 2.13); NaN becomes 0x7f or 0xff
//   f64 -> f16 ... f8  through f32, as in PyTorch
//   float -> integer   towards zero. NaN and values that do not fit i64 or i32 give the lowest i64 or i32, as
//                      cvttsd2si does; i16, i8, u8 keep the low bits of the i32 (PyTorch 2.13 on x86, also in vectors)
//   float -> bool      != 0; NaN is true
//   integer -> integer keeps the low bits
// Tested by tests/unit/base/convert_test.cc.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace tenon {

inline float f16_to_f32(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16, exponent = (half >> 10) & 0x1f,
                 mantissa = half & 0x3ff;
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24, exact in f32
    return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  const uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t half = 0x7c00;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  } else if (magnitude < 0x33000000) {  // below 2^-25, half the smallest denormal
    half = 0;
  } else if (magnitude < 0x38800000) {  // below 2^-14: a denormal, counted in 2^-24
    const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000, shift = 126 - (magnitude >> 23);
    const uint32_t rest = mantissa & ((uint32_t{1} << shift) - 1), tie = uint32_t{1} << (shift - 1);
    half = mantissa >> shift;
    if (rest > tie || (rest == tie && (half & 1))) ++half;
  } else if (magnitude < 0x47800000) {  // below 2^16; the carry of rounding may still make it inf
    half = (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

inline float bf16_to_f32(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The format has `Mantissa` bits of mantissa and the exponent bias `Bias`. Magnitudes that round to more than
// `most` become `most`.
template <int Mantissa, int Bias>
uint8_t f32_to_f8(float value, uint32_t most) {
  constexpr int kDropped = 23 - Mantissa;
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff,
                 sign = (bits >> 24) & 0x80;
  if (magnitude > 0x7f800000) return static_cast<uint8_t>(sign | 0x7f);
  uint32_t result = 0;
  if (magnitude >= uint32_t{128 - Bias} << 23) {
    const uint32_t odd = (magnitude >> kDropped) & 1, half = uint32_t{1} << (kDropped - 1);
    result = (magnitude + (half - 1) + odd - (uint32_t{127 - Bias} << 23)) >> kDropped;
  } else if (const uint32_t shift = 128 - Bias - (magnitude >> 23) + kDropped; shift < 32) {
    const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    const uint32_t rest = mantissa & ((uint32_t{1} << shift) - 1), tie = uint32_t{1} << (shift - 1);
    result = mantissa >> shift;
    if (rest > tie || (rest == tie && (result & 1))) ++result;
  }
  return static_cast<uint8_t>(sign | (result < most ? result : most));
}

inline uint8_t f32_to_f8e4m3fn(float value) { return f32_to_f8<3, 7>(value, 0x7e); }
inline uint8_t f32_to_f8e5m2(float value) { return f32_to_f8<2, 15>(value, 0x7c); }

inline float f8e4m3fn_to_f32(uint8_t bits) {
  const uint32_t sign = uint32_t{bits & 0x80u} << 24, magnitude = bits & 0x7f;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000);
  if (magnitude < 8)  // zero or denormal
    return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-9f) | sign);
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}
inline float f8e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }

// One function serves f32 and f64, because an f32 operand is exact in double. Integer: int64_t, int32_t,
// int16_t, int8_t, uint8_t.
template <class Integer>
Integer float_to_int(double value) {
  if constexpr (sizeof(Integer) == 8) {
    const bool fits = value >= -0x1p63 && value < 0x1p63;
    return fits ? static_cast<Integer>(value) : std::numeric_limits<Integer>::min();
  } else {
    const bool fits = value > -0x1p31 - 1 && value < 0x1p31;
    return static_cast<Integer>(fits ? static_cast<int32_t>(value) : std::numeric_limits<int32_t>::min());
  }
}

}  // namespace tenon
