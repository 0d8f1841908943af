// Orthogonal polynomials by their three-term recurrences (DLMF 18.9.1). The first terms and the shortcuts are
// PyTorch's, so high degrees have the same rounding errors. Tested by tests/unit/ops/special_test.cc.
#include <cmath>
#include <limits>

#include "src/ops/special/special.h"

namespace tenon::special {
namespace {

// The degree as PyTorch reads it: truncated to an integer, or the lowest integer if no int64 holds it.
template <class T>
int64_t whole(T degree) {
  return std::fabs(degree) < T(0x1p63) ? static_cast<int64_t>(degree) : std::numeric_limits<int64_t>::min();
}

// p(k + 1) = next(k, p(k), p(k - 1)) from p(0) and p(1), up to p(degree).
template <class T, class Next>
T recur(int64_t degree, T zeroth, T first, Next next) {
  if (degree == 0) return zeroth;
  T before = zeroth, last = first;
  for (int64_t k = 1; k < degree && !std::isnan(last); ++k) {
    const T value = next(static_cast<T>(k), last, before);
    before = last;
    last = value;
  }
  return last;
}

enum class Chebyshev : uint8_t { first, second, third, fourth };

// At 1 and -1 the values are known; between them, higher degrees are cosines and sines of multiples of acos
// x.
template <class T>
T chebyshev_at_end(Chebyshev kind, bool right, T n, bool even) {
  switch (kind) {
    case Chebyshev::first: return right || even ? T(1) : T(-1);
    case Chebyshev::second: return right || even ? n + 1 : -(n + 1);
    case Chebyshev::third: return right ? T(1) : even ? n + n + 1 : -(n + n + 1);
    case Chebyshev::fourth: return right ? n + n + 1 : even ? T(1) : T(-1);
  }
  return 0;
}

template <class T>
T chebyshev_by_angle(Chebyshev kind, T x, T n) {
  const T angle = std::acos(x);
  switch (kind) {
    case Chebyshev::first: return std::cos(n * angle);
    case Chebyshev::second: return std::sin((n + 1) * angle) / std::sin(angle);
    case Chebyshev::third: return std::cos((n + T(0.5)) * angle) / std::cos(angle / 2);
    case Chebyshev::fourth: return std::sin((n + T(0.5)) * angle) / std::sin(angle / 2);
  }
  return 0;
}

template <class T>
T chebyshev(Chebyshev kind, T x, T degree) {
  const int64_t n = whole(degree);
  if (n < 0) return 0;
  const T count = static_cast<T>(n);
  if (std::fabs(x) == 1) return chebyshev_at_end(kind, x > 0, count, n % 2 == 0);
  if (n > (kind == Chebyshev::first ? 6 : 8) && std::fabs(x) < 1) return chebyshev_by_angle(kind, x, count);
  const T first = kind == Chebyshev::first    ? x
                  : kind == Chebyshev::second ? x + x
                  : kind == Chebyshev::third  ? x + x - 1
                                              : x + x + 1;
  return recur(n, T(1), first, [&](T, T last, T before) { return (x + x) * last - before; });
}

// Beyond this degree PyTorch returns NaN, because the values overflow.
template <class T>
constexpr int64_t kMostHermite = sizeof(T) == 4 ? 128 : 512;

template <class T>
T hermite(T x, T degree, T factor) {
  const int64_t n = whole(degree);
  if (n < 0) return 0;
  if (n > 1 && n > kMostHermite<T>) return std::numeric_limits<T>::quiet_NaN();
  return recur(n, T(1), factor * x,
               [&](T k, T last, T before) { return factor * x * last - factor * k * before; });
}

template <class T>
T laguerre(T x, T degree) {
  const int64_t n = whole(degree);
  if (n < 0) return 0;
  if (x == 0) return 1;
  return recur(n, T(1), 1 - x,
               [&](T k, T last, T before) { return (((k + k) + (1 - x)) * last - k * before) / (k + 1); });
}

template <class T>
T legendre(T x, T degree) {
  const int64_t n = whole(degree);
  if (n < 0) return 0;
  if (std::fabs(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
  return recur(n, T(1), x,
               [&](T k, T last, T before) { return ((k + k + 1) * x * last - k * before) / (k + 1); });
}

}  // namespace

double chebyshev_t(double x, double n) { return chebyshev(Chebyshev::first, x, n); }
float chebyshev_t(float x, float n) { return chebyshev(Chebyshev::first, x, n); }
double chebyshev_u(double x, double n) { return chebyshev(Chebyshev::second, x, n); }
float chebyshev_u(float x, float n) { return chebyshev(Chebyshev::second, x, n); }
double chebyshev_v(double x, double n) { return chebyshev(Chebyshev::third, x, n); }
float chebyshev_v(float x, float n) { return chebyshev(Chebyshev::third, x, n); }
double chebyshev_w(double x, double n) { return chebyshev(Chebyshev::fourth, x, n); }
float chebyshev_w(float x, float n) { return chebyshev(Chebyshev::fourth, x, n); }
double hermite_h(double x, double n) { return hermite(x, n, 2.0); }
float hermite_h(float x, float n) { return hermite(x, n, 2.0F); }
double hermite_he(double x, double n) { return hermite(x, n, 1.0); }
float hermite_he(float x, float n) { return hermite(x, n, 1.0F); }
double laguerre_l(double x, double n) { return laguerre(x, n); }
float laguerre_l(float x, float n) { return laguerre(x, n); }
double legendre_p(double x, double n) { return legendre(x, n); }
float legendre_p(float x, float n) { return legendre(x, n); }

int64_t gcd(int64_t a, int64_t b) {
  // Unsigned magnitudes, because that of the smallest integer fits no int64.
  auto magnitude = [](int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); };
  uint64_t x = magnitude(a), y = magnitude(b);
  while (x != 0) {
    const uint64_t rest = x >> 32 || y >> 32 ? y % x : static_cast<uint32_t>(y) % static_cast<uint32_t>(x);
    y = x;
    x = rest;
  }
  return static_cast<int64_t>(y);
}

int64_t lcm(int64_t a, int64_t b) {
  const int64_t divisor = gcd(a, b);
  if (divisor == 0) return 0;
  const auto product = static_cast<int64_t>(static_cast<uint64_t>(a / divisor) * static_cast<uint64_t>(b));
  return product < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(product)) : product;
}

}  // namespace tenon::special
