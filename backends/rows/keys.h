// Keys: elements as unsigned integers that compare as the elements do. NaN is the largest, whatever its bits; zeros are equal.
// Tested by tests/unit/backends/rows_test.cc.
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/ir/dtype.h"

namespace tenon::rows {

// Reads a float given by its bits; kInfinity: the bits of infinity.
template <class Bits, Bits kInfinity>
struct FloatKey {
  using Stored = Bits;
  using Key = Bits;
  static constexpr Key kNan = static_cast<Key>(~Key{0});
  // Without a branch: signs are hard to predict.
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

// f.operator()<Key of the dtype>(); of a dtype that is computed with.
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
