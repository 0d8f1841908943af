// See probe.h. Tested by tests/bench_test.py.
#include "src/cli/bench/probe.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <vector>

#include "src/backend/backend.h"
#include "src/base/cpu.h"

namespace tenon::cli {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The shortest time of one call, of calls in at least 20 ms and at least three. Calls `before`, if there is one, before each of them.
double best_seconds(const std::function<void()>& work, const std::function<void()>& before = {}) {
  constexpr int kMost = 5;  // calls with `before`, which takes longer than they
  double best = 1e9, sum = 0;
  for (int i = 0; i < 3 || (sum < 0.02 && !(before && i >= kMost)); ++i) {
    if (before) before();
    const double s = seconds_of(work);
    best = std::min(best, s);
    sum += s;
  }
  return best;
}

// Runs work(arg, begin, end) on pieces of [0, n).
void in_parallel(int threads, int64_t n, const std::function<void(int64_t, int64_t)>& work) {
  default_parallel().run(
      n, threads,
      [](void* arg, int, int64_t begin, int64_t end) {
        (*static_cast<const std::function<void(int64_t, int64_t)>*>(arg))(begin, end);
      },
      const_cast<std::function<void(int64_t, int64_t)>*>(&work));
}

constexpr int64_t kRounds = 20000;
constexpr int kChains = 10;  // independent, so that no multiply-add waits for another

// Vector: 4, 8 or 16 floats. Inlined into functions that are compiled for an instruction set.
template <class Vector>
[[gnu::always_inline]] inline float chains(float x) {
  Vector sums[kChains];
#pragma GCC unroll 16  // keeps the sums in registers
  for (int i = 0; i < kChains; ++i) sums[i] = Vector{} + (x + static_cast<float>(i));
  const Vector a = Vector{} + 0.999f, b = Vector{} + x;
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * a + b;
  }
#pragma GCC unroll 16
  for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
  return sums[0][0];
}

using Vector4 [[gnu::vector_size(16)]] = float;
using Vector8 [[gnu::vector_size(32)]] = float;
using Vector16 [[gnu::vector_size(64)]] = float;

[[gnu::target("avx512f")]] float chains_avx512(float x) { return chains<Vector16>(x); }
[[gnu::target("avx2,fma")]] float chains_avx2(float x) { return chains<Vector8>(x); }
float chains_sse(float x) { return chains<Vector4>(x); }

int64_t cache_bytes(int name, int64_t otherwise) {
  const long n = sysconf(name);
  return n > 0 ? n : otherwise;
}

}  // namespace

double copy_rate(int64_t bytes, int threads, bool cold) {
  const int64_t half = std::max<int64_t>(bytes / 2, 64);
  std::vector<char> from(static_cast<size_t>(half), 1), to(static_cast<size_t>(half), 2);
  // Small copies together take long enough for the clock; only the first one would be cold.
  const int64_t copies = cold ? 1 : std::max<int64_t>(1, (int64_t{1} << 20) / half);
  const auto copy = [&] {
    in_parallel(threads, half, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < copies; ++i) {
        std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
        asm volatile("" ::: "memory");
      }
    });
  };
  const double seconds = best_seconds(copy, cold ? [&] { flush_caches(threads); } : std::function<void()>());
  return static_cast<double>(2 * half * copies) / seconds;
}

double multiply_add_rate(int threads) {
  const bool avx512 = cpu_lacks("avx512f").empty(), avx2 = cpu_lacks("avx2,fma").empty();
  const auto widest = avx512 ? chains_avx512 : avx2 ? chains_avx2 : chains_sse;
  const int lanes = avx512 ? 16 : avx2 ? 8 : 4;
  const int64_t pieces = 8 * threads;
  const double seconds = best_seconds([&] {
    in_parallel(threads, pieces, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        volatile float kept = widest(static_cast<float>(i));
        (void)kept;
      }
    });
  });
  return 2.0 * lanes * kChains * kRounds * static_cast<double>(pieces) / seconds;
}

std::string machine() {
  std::string model = "unknown CPU", line;
  for (std::ifstream info("/proc/cpuinfo"); std::getline(info, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  const char* widest = "sse2";
  for (const char* set : {"avx2", "avx512f"})
    if (cpu_lacks(set).empty()) widest = set;
  return model + ", " + std::to_string(sysconf(_SC_NPROCESSORS_ONLN)) + " cores, L2 " +
         std::to_string(cache_bytes(_SC_LEVEL2_CACHE_SIZE, 0) >> 10) + " KiB, L3 " +
         std::to_string(cache_bytes(_SC_LEVEL3_CACHE_SIZE, 0) >> 10) + " KiB, " + widest;
}

void flush_caches(int threads) {
  static std::vector<char> other(
      static_cast<size_t>(2 * std::max<int64_t>(cache_bytes(_SC_LEVEL3_CACHE_SIZE, 0), 32 << 20)));
  static char value = 0;
  ++value;
  in_parallel(threads, static_cast<int64_t>(other.size()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 64) other[static_cast<size_t>(i)] = value;
  });
}

}  // namespace tenon::cli
