// The alignment of all memory that Tenon lays out: a cache line, which is also the widest vector.
#pragma once

#include <cstdint>

namespace tenon {

inline constexpr int64_t kAlign = 64;  // bytes
constexpr int64_t align_up(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace tenon
