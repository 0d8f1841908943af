// Normally distributed floats, the same for the same seed. For the tests of backends/inner and backends/winograd.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace tenon {

inline std::vector<float> random_floats(int64_t count, uint32_t seed) {
  std::vector<float> v(static_cast<size_t>(count));
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  for (float& x : v) x = normal(rng);
  return v;
}

}  // namespace tenon
