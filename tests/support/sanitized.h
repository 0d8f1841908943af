// kSanitized: whether the test runs under a sanitizer. rounds(n): how many random cases it tries; with
// sanitizers each takes ten times as long and runs the same code.
#pragma once

namespace tenon {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

constexpr int rounds(int n) { return kSanitized ? (n + 9) / 10 : n; }

}  // namespace tenon
