// See depthwise.h. A vector holds neighbouring channels. The last vector ends with the last channel, so it may repeat channels of the one
// before. A few neighbouring results stay in registers while all elements of the windows go by.
#include "backends/inner/depthwise.h"

#include <algorithm>

#include "backends/inner/isa.h"
#include "backends/inner/lanes.h"
#include "src/base/align.h"

namespace tenon::inner {
namespace {

constexpr size_t kMostWindowRows = 128;  // of a window

// A row of results, and the rows of the volume that lie in its windows.
struct RowOfResults {
  const float* rows[kMostWindowRows];     // of the volume, at column 0
  const float* windows[kMostWindowRows];  // [window columns, vectors * lanes]
  size_t count;
  const float* bias;  // or null
  float* out;
  int64_t in_column, out_column, width, out_width;
  int64_t channels, vectors;
  int64_t columns, step, low, dilation;  // along the columns
};

template <class V, size_t Together>
[[gnu::always_inline]] inline void compute_together(const RowOfResults& r, int64_t vector, int64_t x,
                                                    bool at_edge) {
  constexpr auto kLanes = static_cast<int64_t>(lanes_of<V>);
  const int64_t channel = std::min(vector * kLanes, r.channels - kLanes);
  V sums[Together] = {};
  if (r.bias)
    for (V& sum : sums) __builtin_memcpy(&sum, r.bias + channel, sizeof sum);
  for (size_t n = 0; n < r.count; ++n) {
    for (int64_t k = 0; k < r.columns; ++k) {
      V weight;
      __builtin_memcpy(&weight, r.windows[n] + (k * r.vectors + vector) * kLanes, sizeof weight);
      const int64_t first = x * r.step - r.low + k * r.dilation;
#pragma GCC unroll 8
      for (size_t b = 0; b < Together; ++b) {
        const int64_t at = first + static_cast<int64_t>(b) * r.step;
        if (at_edge && (at < 0 || at >= r.width)) continue;
        V pixel;
        __builtin_memcpy(&pixel, r.rows[n] + at * r.in_column + channel, sizeof pixel);
        sums[b] += pixel * weight;
      }
    }
  }
#pragma GCC unroll 8
  for (size_t b = 0; b < Together; ++b)
    __builtin_memcpy(r.out + (x + static_cast<int64_t>(b)) * r.out_column + channel, &sums[b],
                     sizeof sums[b]);
}

// Computes results [x, end), in groups as large as possible.
template <class V, bool AtEdge>
[[gnu::always_inline]] inline void compute_all(const RowOfResults& r, int64_t vector, int64_t x,
                                               int64_t end) {
  for (; x + 8 <= end; x += 8) compute_together<V, 8>(r, vector, x, AtEdge);
  if (x + 4 <= end) compute_together<V, 4>(r, vector, x, AtEdge), x += 4;
  if (x + 2 <= end) compute_together<V, 2>(r, vector, x, AtEdge), x += 2;
  if (x < end) compute_together<V, 1>(r, vector, x, AtEdge);
}

template <class V>
[[gnu::always_inline]] inline void compute_row_as(const RowOfResults& r) {
  constexpr int64_t kShort = 8;  // results, which take less time together, wherever their windows lie
  // Results [first, last) have their whole windows in the volume.
  const int64_t first = std::min(r.out_width, ceil_div(std::max<int64_t>(r.low, 0), r.step));
  const int64_t beyond = r.width - (r.columns - 1) * r.dilation + r.low;
  const int64_t last = std::clamp(beyond > 0 ? ceil_div(beyond, r.step) : 0, first, r.out_width);
  for (int64_t v = 0; v < r.vectors; ++v) {
    if (r.out_width <= kShort && (first > 0 || last < r.out_width)) {
      compute_all<V, true>(r, v, 0, r.out_width);
      continue;
    }
    compute_all<V, true>(r, v, 0, first);
    compute_all<V, false>(r, v, first, last);
    compute_all<V, true>(r, v, last, r.out_width);
  }
}

struct VolumeFunctions {
  int64_t lanes;
  void (*compute_row)(const RowOfResults&);
};

// Defines NAME(), the functions of an instruction set.
#define FUNCTIONS(NAME, TARGET, VECTOR)                                                \
  TARGET void NAME##_compute_row(const RowOfResults& r) { compute_row_as<VECTOR>(r); } \
  VolumeFunctions NAME() { return {lanes_of<VECTOR>, NAME##_compute_row}; }

TENON_EACH_ISA(FUNCTIONS, volumes)
#undef FUNCTIONS

const VolumeFunctions& volume_functions() {
  static const VolumeFunctions chosen = TENON_BY_ISA(volumes);
  return chosen;
}

}  // namespace

bool Depthwise::computes(const VolumeShape& s) {
  return s.channels >= volume_functions().lanes && s.volumes > 0 &&
         std::ranges::all_of(s.out_size, [](int64_t n) { return n > 0; }) &&
         s.window[0] * s.window[1] <= static_cast<int64_t>(kMostWindowRows);
}

Depthwise::Depthwise(const VolumeShape& shape) : shape_(shape) {
  vectors_ = ceil_div(shape_.channels, volume_functions().lanes);
  width_ = vectors_ * volume_functions().lanes;
}

struct Depthwise::Run {
  const Depthwise* of;
  const float *in, *windows, *bias;
  float *out, *packed;  // packed: [window depth, window rows, window columns, width_]
};

int64_t Depthwise::scratch_floats() const {
  return shape_.window[0] * shape_.window[1] * shape_.window[2] * width_;
}

void Depthwise::pack(const Run& run, int64_t vector) const {
  const VolumeShape& s = shape_;
  const int64_t lanes = width_ / vectors_, channel = std::min(vector * lanes, s.channels - lanes);
  float* to = run.packed + vector * lanes;
  for (int64_t i = 0; i < s.window[0]; ++i)
    for (int64_t j = 0; j < s.window[1]; ++j)
      for (int64_t k = 0; k < s.window[2]; ++k, to += width_) {
        const float* from =
            run.windows + i * s.windows.axes[0] + j * s.windows.axes[1] + k * s.windows.axes[2];
        for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = from[(channel + lane) * s.windows.channel];
      }
}

void Depthwise::compute_row(const Run& run, int64_t row) const {
  const VolumeShape& s = shape_;
  const int64_t y = row % s.out_size[1], z = row / s.out_size[1] % s.out_size[0],
                n = row / s.out_size[1] / s.out_size[0];
  RowOfResults r{.rows = {},
                 .windows = {},
                 .count = 0,
                 .bias = run.bias,
                 .out = run.out + n * s.out.volume + z * s.out.axes[0] + y * s.out.axes[1],
                 .in_column = s.in.axes[2],
                 .out_column = s.out.axes[2],
                 .width = s.size[2],
                 .out_width = s.out_size[2],
                 .channels = s.channels,
                 .vectors = vectors_,
                 .columns = s.window[2],
                 .step = s.step[2],
                 .low = s.low[2],
                 .dilation = s.dilation[2]};
  for (int64_t i = 0; i < s.window[0]; ++i) {
    const int64_t depth = z * s.step[0] - s.low[0] + i * s.dilation[0];
    if (depth < 0 || depth >= s.size[0]) continue;
    for (int64_t j = 0; j < s.window[1]; ++j) {
      const int64_t at = y * s.step[1] - s.low[1] + j * s.dilation[1];
      if (at < 0 || at >= s.size[1]) continue;
      r.rows[r.count] = run.in + n * s.in.volume + depth * s.in.axes[0] + at * s.in.axes[1];
      r.windows[r.count++] = run.packed + (i * s.window[1] + j) * s.window[2] * width_;
    }
  }
  volume_functions().compute_row(r);
}

void Depthwise::run(const float* in, const float* windows, const float* bias, float* out, float* scratch,
                    Parallel& parallel, int threads) const {
  Run run{this, in, windows, bias, out, scratch};
  const auto pack = [](void* arg, int, int64_t begin, int64_t end) {
    const Run& r = *static_cast<const Run*>(arg);
    for (int64_t vector = begin; vector < end; ++vector) r.of->pack(r, vector);
  };
  parallel.run(vectors_, threads, pack, &run);
  const auto compute = [](void* arg, int, int64_t begin, int64_t end) {
    const Run& r = *static_cast<const Run*>(arg);
    for (int64_t row = begin; row < end; ++row) r.of->compute_row(r, row);
  };
  parallel.run(shape_.volumes * shape_.out_size[0] * shape_.out_size[1], threads, compute, &run);
}

}  // namespace tenon::inner
