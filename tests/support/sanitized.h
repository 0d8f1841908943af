// kSanitized: whether the test runs under a sanitizer. rounds(n): how many random cases it tries; with sanitizers each takes ten times
// as long and runs the same code. sampled(all) returns the cases to try: all of them, or with sanitizers the first of every three.
#pragma once

#include <cstddef>
#include <vector>

namespace tenon {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

constexpr int rounds(int n) { return kSanitized ? (n + 9) / 10 : n; }

template <typename T>
std::vector<T> sampled(std::vector<T> all) {
  if (!kSanitized) return all;
  std::vector<T> some;
  for (size_t i = 0; i < all.size(); i += 3) some.push_back(all[i]);
  return some;
}

}  // namespace tenon
