// Scalar: elementwise operations on one element, for eval columns of map.def that need more than an
// expression. Floats are doubles, integers and bools are int64; the caller rounds or wraps to the dtype. The
// semantics are PyTorch's on the CPU. Where PyTorch raises an error there is still a value (integer division
// by zero gives 0), and the row's fault column describes the error. Tested by tests/unit/ops/math_test.cc.
#pragma once

#include <cmath>
#include <cstdint>

namespace tenon::scalar {

inline int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <class T>
T sign(T a) {
  return static_cast<T>((a > 0) - (a < 0));
}

// NaN wins; of two zeros, the second wins.
inline double maximum(double a, double b) { return a != a || a > b ? a : b; }
inline double minimum(double a, double b) { return a != a || a < b ? a : b; }
inline double clamp(double x, double low, double high) {
  const double raised = low != low || x < low ? low : x;
  return high != high || raised > high ? high : raised;
}
inline int64_t clamp(int64_t x, int64_t low, int64_t high) {
  const int64_t raised = x < low ? low : x;
  return raised > high ? high : raised;
}

inline double remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
inline double floor_div(double a, double b) {
  if (b == 0) return a / b;
  const double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(q);
  return q - floor > 0.5 ? floor + 1 : floor;
}

inline bool is_index(int64_t i, int64_t size) {
  return static_cast<uint64_t>(i) < static_cast<uint64_t>(size);
}

inline int64_t trunc_div(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? sub(0, a) : a / b; }
inline int64_t fmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
inline int64_t floor_div(int64_t a, int64_t b) {
  const int64_t r = fmod(a, b);
  return trunc_div(a, b) - (r != 0 && (r ^ b) < 0);
}
inline int64_t remainder(int64_t a, int64_t b) {
  const int64_t r = fmod(a, b);
  return r != 0 && (r ^ b) < 0 ? r + b : r;
}

// Negative exponents: 1 / a**-b rounded toward zero; 0 if a is 0.
inline int64_t pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; b != 0; b >>= 1, a = mul(a, a))
    if (b & 1) result = mul(result, a);
  return result;
}

// Amounts beyond the width shift everything out: the result is 0, or the sign when a signed value is shifted
// right.
inline int64_t shift_left(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
inline int64_t shift_right(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }

// Philox2x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): ten
// rounds of a multiplication whose halves are mixed with the key. For each key it is a permutation of the
// counters.
inline constexpr int64_t kPhiloxFactor = 0xd256d193, kPhiloxWeyl = 0x9e3779b9;
inline constexpr int kPhiloxRounds = 10;
inline int64_t philox(int64_t counter, int64_t key) {
  auto x = static_cast<uint32_t>(counter), y = static_cast<uint32_t>(static_cast<uint64_t>(counter) >> 32);
  auto k = static_cast<uint32_t>(key);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product = static_cast<uint64_t>(x) * static_cast<uint64_t>(kPhiloxFactor);
    x = static_cast<uint32_t>(product >> 32) ^ k ^ y;
    y = static_cast<uint32_t>(product);
    k += static_cast<uint32_t>(kPhiloxWeyl);
  }
  return static_cast<int64_t>(static_cast<uint64_t>(y) << 32 | x);
}
// The 32-bit word of a position in the random numbers of a seed; two positions share a block. The low half of
// the seed is the key; the high half is mixed into the high half of the counter. So different seeds differ in
// every block, for more positions than memory has.
inline int64_t random_bits(int64_t place, int64_t seed) {
  const auto block = static_cast<uint64_t>(
      philox(static_cast<int64_t>(static_cast<uint64_t>(place) >> 1) ^ (seed & ~int64_t{0xffffffff}), seed));
  return static_cast<int32_t>(block >> (place & 1) * 32);
}

inline double sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0) / (1 + e);
}

}  // namespace tenon::scalar
