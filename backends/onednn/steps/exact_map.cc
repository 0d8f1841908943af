// See exact_map.h. NaN is found by its bits: without the sign bit, they are greater than the bits of infinity.
#include "backends/onednn/steps/exact_map.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numbers>

#include "src/base/convert.h"
#include "src/base/cpu.h"
#include "src/ops/rows/names.h"

namespace tenon::onednn {
namespace {

constexpr int64_t kBlock = 64;          // elements that are tested without a branch
constexpr int64_t kSerial = 64 * 1024;  // elements that are not worth a second thread

// The elements of an array as runs of elements one step apart, and the axes around the runs.
struct Runs {
  int64_t length = 1, step = 1;
  std::vector<std::pair<int64_t, int64_t>> around;  // size, stride
};

Runs runs_of(const Array& a) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (size_t i = 0; i < a.dims.size(); ++i)
    if (a.dims[i] != 1) axes.emplace_back(a.strides[i], a.dims[i]);
  std::sort(axes.begin(), axes.end());
  Runs runs;
  for (auto [stride, size] : axes) {
    if (runs.length == 1) {
      runs.length = size;
      runs.step = stride;
    } else if (runs.around.empty() && stride == runs.length * runs.step) {
      runs.length *= size;
    } else {
      runs.around.emplace_back(size, stride);
    }
  }
  return runs;
}

// Calls f(begin) with the first element of every run.
template <class T, class F>
void each(const Runs& runs, T* data, size_t axis, const F& f) {
  if (axis == runs.around.size()) return f(data);
  auto [size, stride] = runs.around[axis];
  for (int64_t i = 0; i < size; ++i) each(runs, data + i * stride, axis + 1, f);
}

// The elements that are looked for: those whose bits under `mask` are greater than `limit`.
template <class T>
struct Search {
  T mask, limit;

  [[gnu::always_inline]] bool any(const T* at, int64_t begin, int64_t end, int64_t step) const {
    int64_t i = begin;
    if (step == 1)
      for (; i + kBlock <= end; i += kBlock) {
        T found = 0;
        for (int64_t k = 0; k < kBlock; ++k)
          found |= static_cast<T>(static_cast<T>(at[i + k] & mask) > limit);
        if (found) return true;
      }
    for (; i < end; ++i)
      if (static_cast<T>(at[i * step] & mask) > limit) return true;
    return false;
  }
  [[gnu::target("avx2")]] bool any_avx2(const T* at, int64_t begin, int64_t end, int64_t step) const {
    return any(at, begin, end, step);
  }

  bool run(const Runs& runs, const void* data, Parallel& parallel, int threads) const {
    static const bool avx2 = cpu_lacks("avx2").empty();
    struct Shared {
      const Search& search;
      const Runs& runs;
      const T* at;
      std::atomic<bool> found{false};
    } shared{*this, runs, nullptr};
    each(runs, static_cast<const T*>(data), 0, [&](const T* at) {
      if (shared.found.load(std::memory_order_relaxed)) return;
      shared.at = at;
      const auto part = [](void* arg, int, int64_t begin, int64_t end) {
        Shared& s = *static_cast<Shared*>(arg);
        if (avx2 ? s.search.any_avx2(s.at, begin, end, s.runs.step)
                 : s.search.any(s.at, begin, end, s.runs.step))
          s.found.store(true, std::memory_order_relaxed);
      };
      if (runs.length < kSerial)
        part(&shared, 0, 0, runs.length);
      else
        parallel.run(runs.length, threads, part, &shared);
    });
    return shared.found;
  }
};

float exact_relu(float x) { return x <= 0 ? 0 : x; }  // NaN stays NaN
float exact_gelu(float x) { return static_cast<float>(0.5 * x * std::erfc(-x * (std::numbers::sqrt2 / 2))); }

// Replaces each element by f of it. T holds the bits of an element.
template <class T, class F, class Widen, class Narrow>
void map_each(const Runs& runs, void* data, const F& f, Widen widen, Narrow narrow) {
  each(runs, static_cast<T*>(data), 0, [&](T* at) {
    for (int64_t i = 0; i < runs.length; ++i) at[i * runs.step] = narrow(f(widen(at[i * runs.step])));
  });
}

}  // namespace

bool has_failed(const Redone& map, const Array& array, const void* data, Parallel& parallel, int threads) {
  const Runs runs = runs_of(array);
  const void* at = static_cast<const char*>(data) + array.offset;
  if (map.most) return Search<uint32_t>{0xffffffff, 0x80000000}.run(runs, at, parallel, threads);  // below -0
  switch (array.dtype) {
    case DType::bf16: return Search<uint16_t>{0x7fff, 0x7f80}.run(runs, at, parallel, threads);
    case DType::f16: return Search<uint16_t>{0x7fff, 0x7c00}.run(runs, at, parallel, threads);
    default: return Search<uint32_t>{0x7fffffff, 0x7f800000}.run(runs, at, parallel, threads);
  }
}

void exact_map(const Redone& map, const Array& array, void* data) {
  const Runs runs = runs_of(array);
  void* at = static_cast<char*>(data) + array.offset;
  TENON_CHECK(map.map == ops::relu || map.map == ops::gelu, "a map that calls of the library do not redo");
  const auto f = [&](float x) {
    x = map.map == ops::relu ? exact_relu(x) : exact_gelu(x);
    return map.most && x > *map.most ? *map.most : x;
  };
  switch (array.dtype) {
    case DType::bf16: return map_each<uint16_t>(runs, at, f, bf16_to_f32, f32_to_bf16);
    case DType::f16: return map_each<uint16_t>(runs, at, f, f16_to_f32, f32_to_f16);
    default:
      return map_each<uint32_t>(
          runs, at, f, [](uint32_t bits) { return std::bit_cast<float>(bits); },
          [](float x) { return std::bit_cast<uint32_t>(x); });
  }
}

}  // namespace tenon::onednn
