// The alignment of all memory that Tenon lays out: a cache line, which is also the widest vector. Also division that rounds up.
#pragma once

#include <cstdint>

namespace tenon {

inline constexpr int64_t kAlign = 64;  // bytes
constexpr int64_t align_up(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// How many parts of `size` cover n; n >= 0, size >= 1.
constexpr int64_t ceil_div(int64_t n, int64_t size) { return (n + size - 1) / size; }

}  // namespace tenon
