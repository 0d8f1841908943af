// Conversion of floats narrower than f32 to and from f32, by dtype. bits: the bytes in memory, in the low
// bits. Uses the conversions of src/base/convert.h. Tested by tests/unit/base/convert_test.cc.
#pragma once

#include "src/base/convert.h"
#include "src/ir/dtype.h"

namespace tenon {

// Exact.
inline float widened(DType t, uint16_t bits) {
  switch (t) {
    case DType::f16: return f16_to_f32(bits);
    case DType::bf16: return bf16_to_f32(bits);
    case DType::f8e4m3fn: return f8e4m3fn_to_f32(static_cast<uint8_t>(bits));
    case DType::f8e5m2: return f8e5m2_to_f32(static_cast<uint8_t>(bits));
    default: return 0;
  }
}
inline uint16_t narrowed(DType t, float value) {
  switch (t) {
    case DType::f16: return f32_to_f16(value);
    case DType::bf16: return f32_to_bf16(value);
    case DType::f8e4m3fn: return f32_to_f8e4m3fn(value);
    case DType::f8e5m2: return f32_to_f8e5m2(value);
    default: return 0;
  }
}
// The nearest value of type t.
inline float rounded(DType t, float value) { return widened(t, narrowed(t, value)); }

}  // namespace tenon
