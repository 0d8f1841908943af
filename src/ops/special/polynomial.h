// polynomial: evaluates the even and the odd powers by Horner's scheme, side by side. Tested by
// tests/unit/ops/special_test.cc.
#pragma once

namespace tenon::special {

// c[0] + c[1] t + c[2] t^2 + ...
template <int n>
double polynomial(double t, const double (&c)[n]) {
  const double square = t * t;
  constexpr int kEven = (n - 1) / 2 * 2, kOdd = (n - 2) / 2 * 2 + 1;
  double even = c[kEven], odd = c[kOdd];
  for (int k = kEven - 2; k >= 0; k -= 2) even = even * square + c[k];
  for (int k = kOdd - 2; k >= 1; k -= 2) odd = odd * square + c[k];
  return even + t * odd;
}

}  // namespace tenon::special
