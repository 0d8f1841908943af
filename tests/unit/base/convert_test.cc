// Number formats: every 16-bit pattern, every rounding boundary between adjacent numbers, and casts to integers out of range.
#include "src/ir/narrow.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tenon {
namespace {

// Every finite half and the midpoint to the next one: values below round down, values above round up, the tie rounds to even.
template <class Load, class Store>
void check_boundaries(uint16_t largest, Load load, Store store, uint16_t sign = 0x8000) {
  for (uint32_t bits = 0; bits < largest; ++bits) {
    const uint16_t low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const float a = load(low), b = load(high);
    ASSERT_LT(a, b) << bits;
    ASSERT_EQ(store(a), low);
    ASSERT_EQ(store(-a), low | sign);
    const float middle = static_cast<float>((static_cast<double>(a) + static_cast<double>(b)) / 2);
    ASSERT_EQ(store(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(store(std::nextafter(middle, a)), low) << bits;
    ASSERT_EQ(store(std::nextafter(middle, b)), high) << bits;
  }
}

TEST(Convert, HalfRoundsToNearestEven) {
  check_boundaries(0x7bff, f16_to_f32, f32_to_f16);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
}

TEST(Convert, HalfAgreesWithTheCompiler) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float ours = f16_to_f32(static_cast<uint16_t>(bits));
    const float theirs = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    if (std::isnan(theirs)) {
      EXPECT_TRUE(std::isnan(ours)) << bits;
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(ours)))) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(ours), std::bit_cast<uint32_t>(theirs)) << bits;
    }
  }
  for (uint64_t step = 0; step < 1u << 20; ++step) {  // covers all exponents and signs of f32
    const float value = std::bit_cast<float>(static_cast<uint32_t>(step * 4099 + 17));
    if (std::isnan(value)) continue;
    ASSERT_EQ(f32_to_f16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
}

TEST(Convert, Bfloat16RoundsToNearestEven) {
  check_boundaries(0x7f7f, bf16_to_f32, f32_to_bf16);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::infinity()), 0x7f80);
  for (uint32_t payload :
       {1u, 0xffffu, 0x10000u, 0x7fffffu})  // rounding must not carry a NaN into an infinity
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800000u | payload))))) << payload;
}

// Floats of 8 bits: all finite ones, then the limits of the range.
TEST(Convert, EightBitsRoundToNearestEven) {
  auto load = [](DType t) { return [t](uint16_t bits) { return widened(t, bits); }; };
  auto store = [](DType t) { return [t](float value) { return narrowed(t, value); }; };
  const float inf = HUGE_VALF, nan = std::nanf("");
  constexpr DType e4 = DType::f8e4m3fn, e5 = DType::f8e5m2;
  check_boundaries(0x7e, load(e4), store(e4), 0x80);
  EXPECT_EQ(widened(e4, 1), 0x1p-9f);
  EXPECT_EQ(widened(e4, 0x7e), 448);
  for (float v : {464.0f, 464.00003f, 480.0f, 1e30f, inf}) {  // the type has no infinity
    EXPECT_EQ(narrowed(e4, v), 0x7e) << v;
    EXPECT_EQ(narrowed(e4, -v), 0xfe) << v;
  }
  EXPECT_EQ(narrowed(e4, nan), 0x7f);
  EXPECT_TRUE(std::isnan(widened(e4, 0x7f)) && std::isnan(widened(e4, 0xff)));
  check_boundaries(0x7b, load(e5), store(e5), 0x80);
  EXPECT_EQ(widened(e5, 1), 0x1p-16f);
  EXPECT_EQ(widened(e5, 0x7b), 57344);
  for (float v : {61440.0f, 1e30f, inf}) EXPECT_EQ(narrowed(e5, -v), 0xfc) << v;
  EXPECT_EQ(narrowed(e5, 61439.9f), 0x7b);
  EXPECT_EQ(narrowed(e5, nan), 0x7f);
  for (uint16_t bits : {0x7c, 0xfc}) EXPECT_TRUE(std::isinf(widened(e5, bits))) << bits;
  for (uint16_t bits : {0x7d, 0x7e, 0x7f, 0xff}) EXPECT_TRUE(std::isnan(widened(e5, bits))) << bits;
  for (DType t : {e4, e5}) {
    EXPECT_EQ(narrowed(t, 1e-40f), 0);
    EXPECT_EQ(narrowed(t, -0.0f), 0x80);
  }
}

// The expected values are those of PyTorch 2.13 on x86 for one element and for a vector.
TEST(Convert, FloatToIntegerOutOfRange) {
  const double nan = std::nan(""), inf = HUGE_VAL;
  for (double v : {nan, inf, -inf, 1e30, -1e30}) {
    EXPECT_EQ(float_to_int<int64_t>(v), std::numeric_limits<int64_t>::min());
    EXPECT_EQ(float_to_int<int32_t>(v), std::numeric_limits<int32_t>::min());
    EXPECT_EQ(float_to_int<int16_t>(v), 0);
    EXPECT_EQ(float_to_int<int8_t>(v), 0);
    EXPECT_EQ(float_to_int<uint8_t>(v), 0);
  }
  EXPECT_EQ(float_to_int<int64_t>(0x1p63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(float_to_int<int32_t>(2147483647.9), 2147483647);
  EXPECT_EQ(float_to_int<int32_t>(-2147483648.9), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(float_to_int<int32_t>(2147483648.0), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(float_to_int<int16_t>(70000.0), 4464);
  EXPECT_EQ(float_to_int<int8_t>(300.7), 44);
  EXPECT_EQ(float_to_int<uint8_t>(-300.7), 212);
  EXPECT_EQ(float_to_int<uint8_t>(-0.9), 0);
}

}  // namespace
}  // namespace tenon
