// See depthwise_gradient.h. A vector holds neighbouring channels. The last vector ends with the last channel, so it may repeat channels of
// the one before. The sums of a row of a window stay in registers while a row of results goes by.
#include "backends/inner/depthwise_gradient.h"

#include <algorithm>

#include "backends/inner/isa.h"
#include "backends/inner/lanes.h"
#include "src/base/align.h"
#include "src/base/convert.h"

namespace tenon::inner {
namespace {

constexpr int64_t kMostColumns = 7;                      // of a window at once
constexpr int64_t kLine = 16;                            // floats
constexpr int64_t kMostParts = 32, kFewestResults = 64;  // of a part
constexpr int64_t kMostSums = int64_t{1} << 22;          // floats, of all parts

// A row of results, a row of the image, and the sums of a row of the window for all vectors of channels.
struct RowOfGradients {
  const float *in, *out_gradient;
  float* sums;  // [window columns, vectors * lanes]
  int64_t in_column, out_column, width, out_width;
  int64_t channels, vectors;
  int64_t step, low, dilation;
};

template <class V, size_t Columns>
[[gnu::always_inline]] inline void add_row_as(const RowOfGradients& r) {
  constexpr auto kLanes = static_cast<int64_t>(lanes_of<V>);
  constexpr size_t kChains = Columns < 4 ? 4 : 2;  // sums that wait for no other one
  const auto column_of = [&](int64_t x, size_t j) {
    return x * r.step - r.low + static_cast<int64_t>(j) * r.dilation;
  };
  // Results [first, last) have their whole windows in the image.
  const int64_t first = std::min(r.out_width, ceil_div(std::max<int64_t>(r.low, 0), r.step));
  const int64_t beyond = r.width - static_cast<int64_t>(Columns - 1) * r.dilation + r.low;
  const int64_t last = std::clamp(beyond > 0 ? ceil_div(beyond, r.step) : 0, first, r.out_width);
  for (int64_t v = 0; v < r.vectors; ++v) {
    const int64_t channel = std::min(v * kLanes, r.channels - kLanes);
    const float *in = r.in + channel, *out = r.out_gradient + channel;
    V sums[kChains][Columns] = {};
    const auto add = [&](int64_t x, size_t chain, bool at_edge) __attribute__((always_inline)) {
      V gradient;
      __builtin_memcpy(&gradient, out + x * r.out_column, sizeof gradient);
#pragma GCC unroll 8
      for (size_t j = 0; j < Columns; ++j) {
        const int64_t at = column_of(x, j);
        if (at_edge && (at < 0 || at >= r.width)) continue;
        V pixel;
        __builtin_memcpy(&pixel, in + at * r.in_column, sizeof pixel);
        sums[chain][j] += pixel * gradient;
      }
    };
    for (int64_t x = 0; x < first; ++x) add(x, 0, true);
    int64_t x = first;
    for (; x + static_cast<int64_t>(kChains) <= last; x += static_cast<int64_t>(kChains))
#pragma GCC unroll 4
      for (size_t chain = 0; chain < kChains; ++chain) add(x + static_cast<int64_t>(chain), chain, false);
    for (; x < last; ++x) add(x, 0, false);
    for (; x < r.out_width; ++x) add(x, 0, true);
#pragma GCC unroll 8
    for (size_t j = 0; j < Columns; ++j) {
      float* to = r.sums + (static_cast<int64_t>(j) * r.vectors + v) * kLanes;
      V total;
      __builtin_memcpy(&total, to, sizeof total);
#pragma GCC unroll 4
      for (size_t chain = 0; chain < kChains; ++chain) total += sums[chain][j];
      __builtin_memcpy(to, &total, sizeof total);
    }
  }
}

// Converts the pixels of a row to f32.
template <class V>
[[gnu::always_inline]] inline void convert_as(const Bf16* from, int64_t from_column, int64_t width,
                                              int64_t channels, float* to) {
  constexpr auto kLanes = static_cast<int64_t>(lanes_of<V>);
  for (int64_t x = 0; x < width; ++x)
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t at = std::min(c, channels - kLanes);
      V pixel;
      widen(from + x * from_column + at, pixel);
      __builtin_memcpy(to + x * channels + at, &pixel, sizeof pixel);
    }
}

struct DepthwiseFunctions {
  int64_t lanes;
  void (*add_row[kMostColumns])(const RowOfGradients&);  // by the columns of the window, less one
  void (*convert)(const Bf16*, int64_t, int64_t, int64_t, float*);
};

// Defines NAME(), the functions of an instruction set.
#define FUNCTIONS(NAME, TARGET, VECTOR)                                                                      \
  template <size_t Columns>                                                                                  \
  TARGET void NAME##_add_row(const RowOfGradients& r) {                                                      \
    add_row_as<VECTOR, Columns>(r);                                                                          \
  }                                                                                                          \
  TARGET void NAME##_convert(const Bf16* from, int64_t column, int64_t width, int64_t channels, float* to) { \
    convert_as<VECTOR>(from, column, width, channels, to);                                                   \
  }                                                                                                          \
  DepthwiseFunctions NAME() {                                                                                \
    return {lanes_of<VECTOR>,                                                                                \
            {NAME##_add_row<1>, NAME##_add_row<2>, NAME##_add_row<3>, NAME##_add_row<4>, NAME##_add_row<5>,  \
             NAME##_add_row<6>, NAME##_add_row<7>},                                                          \
            NAME##_convert};                                                                                 \
  }

TENON_EACH_ISA(FUNCTIONS, depthwise)
#undef FUNCTIONS

const DepthwiseFunctions& depthwise_functions() {
  static const DepthwiseFunctions chosen = TENON_BY_ISA(depthwise);
  return chosen;
}

}  // namespace

bool DepthwiseGradient::computes(const DepthwiseShape& s) {
  return (s.dtype == DType::f32 || s.dtype == DType::bf16) && s.channels >= depthwise_functions().lanes &&
         s.images > 0 && s.out_size[0] > 0 && s.out_size[1] > 0;
}

DepthwiseGradient::DepthwiseGradient(const DepthwiseShape& shape) : shape_(shape) {
  const int64_t lanes = depthwise_functions().lanes;
  vectors_ = ceil_div(shape_.channels, lanes);
  width_ = vectors_ * lanes;
  rows_ = shape_.images * shape_.out_size[0];
  const int64_t most =
      std::clamp<int64_t>(kMostSums / (shape_.window[0] * shape_.window[1] * width_), 1, kMostParts);
  rows_of_part_ = std::max(ceil_div(kFewestResults, shape_.out_size[1]), ceil_div(rows_, most));
  parts_ = ceil_div(rows_, rows_of_part_);
  kept_ = shape_.dtype == DType::f32 ? 0 : (shape_.window[0] - 1) * shape_.dilation[0] + 1;
}

struct DepthwiseGradient::Run {
  const DepthwiseGradient* of;
  const void *in, *out_gradient;
  void* window_gradient;
  float* sums;  // [parts, window rows, window columns, width_]
  float* rows;  // kept_ rows of an image and one of the gradients, for each thread
  int64_t of_part() const { return of->shape_.window[0] * of->shape_.window[1] * of->width_; }
  int64_t of_thread() const { return of->scratch_floats(1) - of->parts_ * of_part(); }
};

int64_t DepthwiseGradient::scratch_floats(int threads) const {
  const DepthwiseShape& s = shape_;
  const int64_t kept = kept_ == 0 ? 0 : (kept_ * s.size[1] + s.out_size[1]) * s.channels;
  return parts_ * s.window[0] * s.window[1] * width_ + threads * ceil_div(kept, kLine) * kLine;
}

void DepthwiseGradient::add_part(const Run& run, int64_t part, float* kept) const {
  const DepthwiseShape& s = shape_;
  const DepthwiseFunctions& functions = depthwise_functions();
  float* sums = run.sums + part * run.of_part();
  std::fill_n(sums, run.of_part(), 0.0f);
  float* gradients = kept + kept_ * s.size[1] * s.channels;
  int64_t image = -1,
          converted = 0;  // rows of this image below `converted` are kept, as many as there is room for
  const int64_t end = std::min(rows_, (part + 1) * rows_of_part_);
  for (int64_t row = part * rows_of_part_; row < end; ++row) {
    const int64_t n = row / s.out_size[0], y = row % s.out_size[0];
    if (n != image) image = n, converted = 0;
    const int64_t in_at = n * s.in.image, out_at = n * s.out.image + y * s.out.row;
    RowOfGradients r{.in = nullptr,
                     .out_gradient = static_cast<const float*>(run.out_gradient) + out_at,
                     .sums = nullptr,
                     .in_column = s.in.column,
                     .out_column = s.out.column,
                     .width = s.size[1],
                     .out_width = s.out_size[1],
                     .channels = s.channels,
                     .vectors = vectors_,
                     .step = s.step[1],
                     .low = 0,
                     .dilation = s.dilation[1]};
    if (kept_ > 0) {
      functions.convert(static_cast<const Bf16*>(run.out_gradient) + out_at, s.out.column, s.out_size[1],
                        s.channels, gradients);
      r.out_gradient = gradients;
      r.in_column = r.out_column = s.channels;
    }
    const int64_t top = y * s.step[0] - s.low[0];
    for (int64_t i = 0; i < s.window[0]; ++i) {
      const int64_t at = top + i * s.dilation[0];
      if (at < 0 || at >= s.size[0]) continue;
      if (kept_ == 0) {
        r.in = static_cast<const float*>(run.in) + in_at + at * s.in.row;
      } else {
        for (converted = std::max(converted, top); converted <= at; ++converted)
          if (converted >= 0)
            functions.convert(static_cast<const Bf16*>(run.in) + in_at + converted * s.in.row, s.in.column,
                              s.size[1], s.channels, kept + converted % kept_ * s.size[1] * s.channels);
        r.in = kept + at % kept_ * s.size[1] * s.channels;
      }
      for (int64_t j = 0; j < s.window[1]; j += kMostColumns) {
        r.sums = sums + (i * s.window[1] + j) * width_;
        r.low = s.low[1] - j * s.dilation[1];
        functions.add_row[std::min(kMostColumns, s.window[1] - j) - 1](r);
      }
    }
  }
}

// Adds up the sums of the parts for a vector of channels, without those that the vector before has too.
void DepthwiseGradient::store(const Run& run, int64_t vector) const {
  const DepthwiseShape& s = shape_;
  const int64_t lanes = width_ / vectors_, channel = std::min(vector * lanes, s.channels - lanes);
  for (int64_t i = 0; i < s.window[0]; ++i)
    for (int64_t j = 0; j < s.window[1]; ++j) {
      float totals[lanes_of<Vector16>] = {};
      const float* sums = run.sums + (i * s.window[1] + j) * width_ + vector * lanes;
      for (int64_t part = 0; part < parts_; ++part, sums += run.of_part())
        for (int64_t lane = 0; lane < lanes; ++lane) totals[lane] += sums[lane];
      const int64_t to = i * s.windows.row + j * s.windows.column;
      for (int64_t lane = vector * lanes - channel; lane < lanes; ++lane) {
        const int64_t at = to + (channel + lane) * s.windows.channel;
        if (s.dtype == DType::f32)
          static_cast<float*>(run.window_gradient)[at] = totals[lane];
        else
          static_cast<uint16_t*>(run.window_gradient)[at] = f32_to_bf16(totals[lane]);
      }
    }
}

void DepthwiseGradient::run(const void* in, const void* out_gradient, void* window_gradient, float* scratch,
                            Parallel& parallel, int threads) const {
  Run run{this, in, out_gradient, window_gradient, scratch, nullptr};
  run.rows = scratch + parts_ * run.of_part();
  const auto add = [](void* arg, int thread, int64_t begin, int64_t end) {
    const Run& r = *static_cast<const Run*>(arg);
    for (int64_t part = begin; part < end; ++part) r.of->add_part(r, part, r.rows + thread * r.of_thread());
  };
  parallel.run(parts_, threads, add, &run);
  const auto store = [](void* arg, int, int64_t begin, int64_t end) {
    const Run& r = *static_cast<const Run*>(arg);
    for (int64_t vector = begin; vector < end; ++vector) r.of->store(r, vector);
  };
  parallel.run(vectors_, threads, store, &run);
}

}  // namespace tenon::inner
