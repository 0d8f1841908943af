// See transforms.h.
#include "backends/winograd/transforms.h"

#include "backends/inner/isa.h"
#include "backends/inner/lanes.h"

namespace tenon::winograd {
namespace {

using inner::lanes_of;
#if defined(__x86_64__)
#endif

template <class V>
[[gnu::always_inline]] inline void load(const float* from, V& to) {
  __builtin_memcpy(&to, from, sizeof to);
}
template <class V>
[[gnu::always_inline]] inline void store(const V& from, float* to) {
  __builtin_memcpy(to, &from, sizeof from);
}

template <class V, bool Whole>
[[gnu::always_inline]] inline void pixels_of(const PixelTile& t) {
  for (int64_t c = 0; c < t.channels; c += static_cast<int64_t>(lanes_of<V>)) {
    V d[4][4] = {}, e[4][4];
#pragma GCC unroll 4
    for (int64_t i = 0; i < 4; ++i)
#pragma GCC unroll 4
      for (int64_t j = 0; j < 4; ++j)
        if (Whole || (i >= t.first_row && i < t.end_row && j >= t.first_column && j < t.end_column))
          load(t.pixels + i * t.row_stride + j * t.column_stride + c, d[i][j]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      e[0][j] = d[0][j] - d[2][j];
      e[1][j] = d[1][j] + d[2][j];
      e[2][j] = d[2][j] - d[1][j];
      e[3][j] = d[1][j] - d[3][j];
    }
    float* to = t.points + c;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      store<V>(e[i][0] - e[i][2], to);
      store<V>(e[i][1] + e[i][2], to + t.point_stride);
      store<V>(e[i][2] - e[i][1], to + 2 * t.point_stride);
      store<V>(e[i][1] - e[i][3], to + 3 * t.point_stride);
      to += 4 * t.point_stride;
    }
  }
}

// Moves weights between memory and taps: lane k of taps[c * 9 + tap] is the weight of output channel k, input channel c and this tap.
// square(at, tap, stride) moves lanes() output channels, whose weights begin at offset `at`, by as many vectors of taps, `stride` apart.
// vector(at, tap) moves one vector of taps. w: Windows or WindowGradients.
template <class V, class W, class Square, class Vector>
[[gnu::always_inline]] inline void move_taps(const W& w, Square square, Vector vector) {
  constexpr auto kLanes = static_cast<int64_t>(lanes_of<V>);
  if (w.column_stride == 1 && w.row_stride == 3 && w.input_stride == 9) {
    for (int64_t at = 0; at < 9 * kLanes; at += kLanes) square(at, at * kLanes, kLanes);
    return;
  }
  for (int64_t tap = 0; tap < 9; ++tap) {
    const int64_t at = tap / 3 * w.row_stride + tap % 3 * w.column_stride;
    if (w.input_stride == 1)
      square(at, tap * kLanes, 9 * kLanes);
    else
      for (int64_t c = 0; c < kLanes; ++c) vector(at + c * w.input_stride, (c * 9 + tap) * kLanes);
  }
}

template <class V>
[[gnu::always_inline]] inline void windows_of(const Windows& w) {
  constexpr auto kLanes = static_cast<int64_t>(lanes_of<V>);
  float taps[9 * kLanes * kLanes];
  move_taps<V>(
      w,
      [&](int64_t at, int64_t tap, int64_t stride) __attribute__((always_inline)) {
        inner::transpose<V>(w.weights + at, w.output_stride, taps + tap, stride);
      },
      [&](int64_t at, int64_t tap) __attribute__((always_inline)) {
        for (int64_t k = 0; k < kLanes; ++k) taps[tap + k] = w.weights[at + k * w.output_stride];
      });
  for (int64_t c = 0; c < kLanes; ++c) {
    V g[9], e[4][3];
#pragma GCC unroll 9
    for (int64_t tap = 0; tap < 9; ++tap) load(taps + (c * 9 + tap) * kLanes, g[w.turned ? 8 - tap : tap]);
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      e[0][j] = g[j];
      e[1][j] = 0.5f * (g[j] + g[3 + j] + g[6 + j]);
      e[2][j] = 0.5f * (g[j] - g[3 + j] + g[6 + j]);
      e[3][j] = g[6 + j];
    }
    float* to = w.points + c * w.input_step;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      store(e[i][0], to);
      store<V>(0.5f * (e[i][0] + e[i][1] + e[i][2]), to + w.point_stride);
      store<V>(0.5f * (e[i][0] - e[i][1] + e[i][2]), to + 2 * w.point_stride);
      store(e[i][2], to + 3 * w.point_stride);
      to += 4 * w.point_stride;
    }
  }
}

// Whether the sum of x - x over some x is 0 in each lane: it is NaN if some x is infinite or NaN.
template <class V>
[[gnu::always_inline]] inline bool all_zero(const V& differences) {
  float sum = 0;
#pragma GCC unroll 16
  for (size_t i = 0; i < lanes_of<V>; ++i) sum += differences[i];
  return sum == 0;
}

// Adds or multiplies an operand, of which `from` points to the first pixel of the tile.
template <class V>
[[gnu::always_inline]] inline void apply(const Term& term, const float* from, int64_t rows, int64_t columns,
                                         V (&y)[2][2]) {
#pragma GCC unroll 2
  for (int64_t i = 0; i < 2; ++i)
#pragma GCC unroll 2
    for (int64_t j = 0; j < 2; ++j) {
      if (i >= rows || j >= columns) continue;
      V operand;
      load(from + i * term.strides.row + j * term.strides.column, operand);
      y[i][j] = term.multiplies ? y[i][j] * operand : y[i][j] + operand;
    }
}

// x becomes the exponential of x, infinite above 89 and at least that of -87. The polynomial is that of the Cephes library.
template <class V>
[[gnu::always_inline]] inline void exponential(V& x) {
  using Bits = typename inner::Integers<lanes_of<V>>::Wide;
  constexpr float kShift = 0x1.8p23f;  // its last bit is worth 1
  x = x < V{} - 87.0f ? V{} - 87.0f : x;
  x = x > V{} + 89.0f ? V{} + 89.0f : x;
  V whole = x * 1.44269504f + kShift;
  const Bits exponent = reinterpret_cast<Bits>(whole) << 23;
  whole -= kShift;
  const V r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  V p = V{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  x = p * reinterpret_cast<V>(exponent + (127u << 23));
}

template <class V>
[[gnu::always_inline]] inline void activate(const Epilogue& follow, V& y) {
  switch (follow.activation) {
    case Activation::none: break;
    case Activation::relu: {
      const V below = follow.slope == 0 ? V{} : follow.slope * y;
      y = y <= V{} ? below : y;
      break;
    }
    case Activation::hardswish: {
      V gate = y * (1.0f / 6) + 0.5f;
      gate = gate < V{} ? V{} : gate;
      gate = gate > V{} + 1.0f ? V{} + 1.0f : gate;
      y *= gate;
      break;
    }
    case Activation::silu: {
      V inverse = -y;
      exponential(inverse);
      y /= 1.0f + inverse;
      break;
    }
  }
  if (follow.most != 0) y = y > V{} + follow.most ? V{} + follow.most : y;
}

template <class V>
[[gnu::always_inline]] inline bool products_of(const ResultTile& t) {
  const Epilogue& follow = *t.epilogue;
  const auto at = [&](const ImageStrides& s) {
    return t.image * s.image + t.row * s.row + t.column * s.column + t.channel;
  };
  float* to = t.results + at(t.strides);
  V differences = {};
  for (int64_t c = 0; c < t.channels; c += static_cast<int64_t>(lanes_of<V>)) {
    V m[4][4], e[2][4], y[2][2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) load(t.points + (4 * i + j) * t.point_stride + c, m[i][j]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      e[0][j] = m[0][j] + m[1][j] + m[2][j];
      e[1][j] = m[1][j] - m[2][j] - m[3][j];
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      y[i][0] = e[i][0] + e[i][1] + e[i][2];
      y[i][1] = e[i][1] - e[i][2] - e[i][3];
      differences += (y[i][0] - y[i][0]) + (y[i][1] - y[i][1]);
    }
    for (size_t k = 0; k < follow.count; ++k)
      apply(follow.terms[k], follow.terms[k].operand + at(follow.terms[k].strides) + c, t.rows, t.columns, y);
#pragma GCC unroll 2
    for (int64_t i = 0; i < 2; ++i)
#pragma GCC unroll 2
      for (int64_t j = 0; j < 2; ++j) {
        activate(follow, y[i][j]);
        if (i < t.rows && j < t.columns) store(y[i][j], to + i * t.strides.row + j * t.strides.column + c);
      }
  }
  return all_zero(differences);
}

template <class V>
[[gnu::always_inline]] inline void gradients_of(const GradientTile& t) {
  for (int64_t c = 0; c < t.channels; c += static_cast<int64_t>(lanes_of<V>)) {
    V d[2][2] = {}, e[4][2];
#pragma GCC unroll 2
    for (int64_t i = 0; i < 2; ++i)
#pragma GCC unroll 2
      for (int64_t j = 0; j < 2; ++j)
        if (i < t.rows && j < t.columns)
          load(t.gradients + i * t.row_stride + j * t.column_stride + c, d[i][j]);
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      e[0][j] = d[0][j];
      e[1][j] = d[0][j] + d[1][j];
      e[2][j] = d[0][j] - d[1][j];
      e[3][j] = -d[1][j];
    }
    float* to = t.points + c;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      store(e[i][0], to);
      store<V>(e[i][0] + e[i][1], to + t.point_stride);
      store<V>(e[i][0] - e[i][1], to + 2 * t.point_stride);
      store<V>(-e[i][1], to + 3 * t.point_stride);
      to += 4 * t.point_stride;
    }
  }
}

template <class V>
[[gnu::always_inline]] inline bool window_gradients_of(const WindowGradients& w) {
  constexpr auto kLanes = static_cast<int64_t>(lanes_of<V>);
  float taps[9 * kLanes * kLanes];
  V differences = {};
  for (int64_t c = 0; c < kLanes; ++c) {
    V m[4][4], e[3][4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) load(w.points + (4 * i + j) * w.point_stride + c * w.input_step, m[i][j]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      e[0][j] = m[0][j] + 0.5f * (m[1][j] + m[2][j]);
      e[1][j] = 0.5f * (m[1][j] - m[2][j]);
      e[2][j] = 0.5f * (m[1][j] + m[2][j]) + m[3][j];
    }
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      const V g[3] = {e[i][0] + 0.5f * (e[i][1] + e[i][2]), 0.5f * (e[i][1] - e[i][2]),
                      0.5f * (e[i][1] + e[i][2]) + e[i][3]};
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        differences += g[j] - g[j];
        store(g[j], taps + (c * 9 + 3 * i + j) * kLanes);
      }
    }
  }
  move_taps<V>(
      w,
      [&](int64_t at, int64_t tap, int64_t stride) __attribute__((always_inline)) {
        inner::transpose<V>(taps + tap, stride, w.gradients + at, w.output_stride);
      },
      [&](int64_t at, int64_t tap) __attribute__((always_inline)) {
        for (int64_t k = 0; k < kLanes; ++k) w.gradients[at + k * w.output_stride] = taps[tap + k];
      });
  return all_zero(differences);
}

struct Functions {
  int64_t lanes;
  void (*pixels)(const PixelTile&);
  void (*whole_pixels)(const PixelTile&);  // of a tile without padding
  void (*windows)(const Windows&);
  bool (*products)(const ResultTile&);
  void (*gradients)(const GradientTile&);
  bool (*window_gradients)(const WindowGradients&);
};

// Defines NAME(), the functions of an instruction set.
#define FUNCTIONS(NAME, TARGET, VECTOR)                                                                    \
  TARGET void NAME##_pixels(const PixelTile& t) { pixels_of<VECTOR, false>(t); }                           \
  TARGET void NAME##_whole_pixels(const PixelTile& t) { pixels_of<VECTOR, true>(t); }                      \
  TARGET void NAME##_windows(const Windows& w) { windows_of<VECTOR>(w); }                                  \
  TARGET bool NAME##_products(const ResultTile& t) { return products_of<VECTOR>(t); }                      \
  TARGET void NAME##_gradients(const GradientTile& t) { gradients_of<VECTOR>(t); }                         \
  TARGET bool NAME##_window_gradients(const WindowGradients& w) { return window_gradients_of<VECTOR>(w); } \
  Functions NAME() {                                                                                       \
    return {static_cast<int64_t>(lanes_of<VECTOR>),                                                        \
            NAME##_pixels,                                                                                 \
            NAME##_whole_pixels,                                                                           \
            NAME##_windows,                                                                                \
            NAME##_products,                                                                               \
            NAME##_gradients,                                                                              \
            NAME##_window_gradients};                                                                      \
  }

TENON_EACH_ISA(FUNCTIONS, transforms)
#undef FUNCTIONS

const Functions& functions() {
  static const Functions chosen = TENON_BY_ISA(transforms);
  return chosen;
}

}  // namespace

int64_t lanes() { return functions().lanes; }

void transform_pixels(const PixelTile& t) {
  const bool whole = t.first_row <= 0 && t.first_column <= 0 && t.end_row >= 4 && t.end_column >= 4;
  (whole ? functions().whole_pixels : functions().pixels)(t);
}

void transform_windows(const Windows& windows) { functions().windows(windows); }

bool transform_products(const ResultTile& tile) { return functions().products(tile); }

void transform_gradients(const GradientTile& tile) { functions().gradients(tile); }

bool transform_window_gradients(const WindowGradients& windows) {
  return functions().window_gradients(windows);
}

}  // namespace tenon::winograd
