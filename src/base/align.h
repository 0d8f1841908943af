// The alignment of everything Tenon lays out in memory: a cache line, and the widest vector.
#pragma once

#include <cstdint>

namespace tenon {

inline constexpr int64_t kAlign = 64;  // bytes
constexpr int64_t align_up(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace tenon
