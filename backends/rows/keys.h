// Keys: map elements to unsigned integers that compare as the elements do. Every NaN maps to the largest key; both zeros map to
// the same key.
// Tested by tests/unit/backends/rows_test.cc.
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/ir/dtype.h"

namespace tenon::rows {

// The key of a float that is given by its bits. kInfinity: the bits of infinity.
template <class Bits, Bits kInfinity>
struct FloatKey {
  using Stored = Bits;
  using Key = Bits;
  static constexpr Key kNan = static_cast<Key>(~Key{0});
  // Branch-free, because signs are hard to predict.
  static Key of(Stored bits) {
    constexpr int kTop = 8 * sizeof(Bits) - 1;
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << kTop);
    const Bits size = static_cast<Bits>(bits & ~kSign);
    const Bits flips = static_cast<Bits>(Bits{0} - (bits >> kTop)) | kSign;
    Key key = static_cast<Key>(bits ^ flips);
    key = size == 0 ? kSign : key;
    return size > kInfinity ? kNan : key;
  }
  static bool is_nan(Key key) { return key == kNan; }
};

template <class Integer>
struct IntegerKey {
  using Stored = Integer;
  using Key = std::make_unsigned_t<Integer>;
  static Key of(Stored x) {
    constexpr Key kSign = std::is_signed_v<Integer> ? Key{1} << (8 * sizeof(Key) - 1) : 0;
    return static_cast<Key>(static_cast<Key>(x) ^ kSign);
  }
  static bool is_nan(Key) { return false; }
};

struct BoolKey {
  using Stored = uint8_t;
  using Key = uint8_t;
  static Key of(Stored x) { return x != 0; }
  static bool is_nan(Key) { return false; }
};

// Calls f.operator()<Keys>() with the key class of the dtype, which is not a float of 8 bits.
template <class F>
auto with_key(DType dtype, F f) {
  switch (dtype) {
    case DType::f16: return f.template operator()<FloatKey<uint16_t, 0x7c00>>();
    case DType::bf16: return f.template operator()<FloatKey<uint16_t, 0x7f80>>();
    case DType::f32: return f.template operator()<FloatKey<uint32_t, 0x7f800000>>();
    case DType::f64: return f.template operator()<FloatKey<uint64_t, 0x7ff0000000000000>>();
    case DType::i64: return f.template operator()<IntegerKey<int64_t>>();
    case DType::i32: return f.template operator()<IntegerKey<int32_t>>();
    case DType::i16: return f.template operator()<IntegerKey<int16_t>>();
    case DType::i8: return f.template operator()<IntegerKey<int8_t>>();
    case DType::u8: return f.template operator()<IntegerKey<uint8_t>>();
    default: return f.template operator()<BoolKey>();
  }
}

}  // namespace tenon::rows
