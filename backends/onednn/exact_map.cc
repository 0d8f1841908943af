// See exact_map.h. NaN is found by its bits: without the sign bit, they are greater than the bits of infinity.
#include "backends/onednn/exact_map.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numbers>

#include "src/base/convert.h"
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

template <class T, T kInfinity>
struct Bits {
  static constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1)), kRest = static_cast<T>(~kSign);
  static bool is_nan(T v) { return static_cast<T>(v & kRest) > kInfinity; }

  static bool any_nan(const T* at, int64_t begin, int64_t end, int64_t step) {
    int64_t i = begin;
    if (step == 1)
      for (; i + kBlock <= end; i += kBlock) {
        T found = 0;
        for (int64_t k = 0; k < kBlock; ++k) found |= static_cast<T>(is_nan(at[i + k]));
        if (found) return true;
      }
    for (; i < end; ++i)
      if (is_nan(at[i * step])) return true;
    return false;
  }

  static bool has_nan(const Runs& runs, const void* data, Parallel& parallel) {
    struct Search {
      const Runs& runs;
      const T* at;
      std::atomic<bool> found{false};
    } search{runs, nullptr};
    each(runs, static_cast<const T*>(data), 0, [&](const T* at) {
      if (search.found.load(std::memory_order_relaxed)) return;
      search.at = at;
      const auto part = [](void* arg, int, int64_t begin, int64_t end) {
        Search& s = *static_cast<Search*>(arg);
        if (any_nan(s.at, begin, end, s.runs.step)) s.found.store(true, std::memory_order_relaxed);
      };
      if (runs.length < kSerial)
        part(&search, 0, 0, runs.length);
      else
        parallel.run(runs.length, parallel.threads(), part, &search);
    });
    return search.found;
  }
};

using Bits32 = Bits<uint32_t, 0x7f800000>;
using BitsOfBf16 = Bits<uint16_t, 0x7f80>;
using BitsOfF16 = Bits<uint16_t, 0x7c00>;

float exact_relu(float x) { return x <= 0 ? 0 : x; }  // NaN stays NaN
float exact_gelu(float x) { return static_cast<float>(0.5 * x * std::erfc(-x * (std::numbers::sqrt2 / 2))); }

// Replaces each element by f of it. T holds the bits of an element.
template <class T, class Widen, class Narrow>
void map_each(const Runs& runs, void* data, float (*f)(float), Widen widen, Narrow narrow) {
  each(runs, static_cast<T*>(data), 0, [&](T* at) {
    for (int64_t i = 0; i < runs.length; ++i) at[i * runs.step] = narrow(f(widen(at[i * runs.step])));
  });
}

}  // namespace

bool has_nan(const Array& array, const void* data, Parallel& parallel) {
  const Runs runs = runs_of(array);
  const void* at = static_cast<const char*>(data) + array.offset;
  switch (array.dtype) {
    case DType::bf16: return BitsOfBf16::has_nan(runs, at, parallel);
    case DType::f16: return BitsOfF16::has_nan(runs, at, parallel);
    default: return Bits32::has_nan(runs, at, parallel);
  }
}

void exact_map(OpId map, const Array& array, void* data) {
  const Runs runs = runs_of(array);
  void* at = static_cast<char*>(data) + array.offset;
  TENON_CHECK(map == ops::relu || map == ops::gelu, "a map that calls of the library do not redo");
  float (*const f)(float) = map == ops::relu ? exact_relu : exact_gelu;
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
