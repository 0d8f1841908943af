// The algorithms of a library that the process keeps: those asked for most recently. One is made once, also if several threads ask
// at once. Any thread. Tested by tests/unit/backends/library_test.cc.
#pragma once

#include "src/base/threads/immortal.h"
#include "src/base/threads/single_flight_lru.h"

namespace tenon::library {

inline constexpr size_t kMostAlgorithms = 4096;

template <class Algorithm>
auto& kept_algorithms() {
  return immortal<SingleFlightLru<const Algorithm>, kMostAlgorithms>();
}
// problem: its key. alignment: of the pointers, in bytes.
inline std::string algorithm_key(int device, int64_t alignment, int64_t most_workspace,
                                 const std::string& problem) {
  return std::to_string(device) + " " + std::to_string(alignment) + " " + std::to_string(most_workspace) +
         " " + problem;
}

}  // namespace tenon::library
