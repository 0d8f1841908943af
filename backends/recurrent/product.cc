// See product.h. A tile of rows by two vectors of columns stays in registers while k walks along the panel.
#include "backends/recurrent/product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "jit/llvm/compiler.h"

namespace tenon::recurrent {
namespace {

// The tile of R rows. V: a vector of floats. Inlined into functions that are compiled for an instruction set.
template <class V, int R>
[[gnu::always_inline]] inline void tile(const float* x, int64_t x_stride, const float* panel, int64_t depth,
                                        float* y, int64_t y_stride) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(float);
  V sums[R][2], left, right;
  __builtin_memcpy(&left, panel, sizeof left);
  __builtin_memcpy(&right, panel + kLanes, sizeof right);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    sums[r][0] = left;
    sums[r][1] = right;
  }
  for (int64_t k = 0; k < depth; ++k) {
    panel += 2 * kLanes;
    __builtin_memcpy(&left, panel, sizeof left);
    __builtin_memcpy(&right, panel + kLanes, sizeof right);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const float a = x[r * x_stride + k];
      sums[r][0] += a * left;
      sums[r][1] += a * right;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    __builtin_memcpy(y + r * y_stride, &sums[r][0], sizeof left);
    __builtin_memcpy(y + r * y_stride + kLanes, &sums[r][1], sizeof right);
  }
}

// R rows of x by C columns of a matrix that is not packed: lanes run along k.
template <class V, int R, int C>
[[gnu::always_inline]] inline void dots(const float* x, int64_t x_stride, const float* columns,
                                        int64_t column_stride, int64_t depth, float* y, int64_t y_stride) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(float);
  V sums[R][C] = {}, a, b[C];
  int64_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) {
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) __builtin_memcpy(&b[c], columns + c * column_stride + k, sizeof a);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      __builtin_memcpy(&a, x + r * x_stride + k, sizeof a);
#pragma GCC unroll 16
      for (int c = 0; c < C; ++c) sums[r][c] += a * b[c];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) {
      float lanes[kLanes], sum = 0;
      __builtin_memcpy(lanes, &sums[r][c], sizeof lanes);
      for (int64_t half = kLanes / 2; half > 0; half /= 2)
        for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
      for (int64_t i = k; i < depth; ++i) sum += x[r * x_stride + i] * columns[c * column_stride + i];
      y[r * y_stride + c] += lanes[0] + sum;
    }
}

using DotsFn = void (*)(const float*, int64_t, const float*, int64_t, int64_t, float*, int64_t);
constexpr int kColumns = 4;  // of the larger tiles of dots
using TileFn = void (*)(const float*, int64_t, const float*, int64_t, float*, int64_t);
constexpr int kMostRows = 12;
struct Tiles {
  int lanes, most;                        // floats in a vector, rows of the largest tile
  std::array<TileFn, kMostRows> of = {};  // of 1, 2, ... rows
  DotsFn dots[2][2] = {};                 // of 1 and 2 rows, by 1 and kColumns columns
};

using Vector4 [[gnu::vector_size(16)]] = float;
using Vector8 [[gnu::vector_size(32)]] = float;
using Vector16 [[gnu::vector_size(64)]] = float;

// Defines NAME(), the tiles of an instruction set.
#define TILES(NAME, TARGET, VECTOR, MOST)                                                              \
  template <int R>                                                                                     \
  TARGET void NAME##_tile(const float* x, int64_t xs, const float* panel, int64_t depth, float* y,     \
                          int64_t ys) {                                                                \
    tile<VECTOR, R>(x, xs, panel, depth, y, ys);                                                       \
  }                                                                                                    \
  template <int R, int C>                                                                              \
  TARGET void NAME##_dots(const float* x, int64_t xs, const float* columns, int64_t cs, int64_t depth, \
                          float* y, int64_t ys) {                                                      \
    dots<VECTOR, R, C>(x, xs, columns, cs, depth, y, ys);                                              \
  }                                                                                                    \
  Tiles NAME() {                                                                                       \
    Tiles made{sizeof(VECTOR) / sizeof(float), MOST};                                                  \
    [&]<size_t... I>(std::index_sequence<I...>) {                                                      \
      ((made.of[I] = NAME##_tile<static_cast<int>(I) + 1>), ...);                                      \
    }(std::make_index_sequence<MOST>());                                                               \
    made.dots[0][0] = NAME##_dots<1, 1>;                                                               \
    made.dots[0][1] = NAME##_dots<1, kColumns>;                                                        \
    made.dots[1][0] = NAME##_dots<2, 1>;                                                               \
    made.dots[1][1] = NAME##_dots<2, kColumns>;                                                        \
    return made;                                                                                       \
  }

TILES(plain, , Vector4, 6)
#if defined(__x86_64__)
TILES(avx2, [[gnu::target("avx2,fma")]], Vector8, 6)
TILES(avx512, [[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,fma")]], Vector16, 12)
#endif
#undef TILES

const Tiles& tiles() {
  static const Tiles chosen = [] {
#if defined(__x86_64__)
    if (jit::host_isa() == jit::Isa::avx512) return avx512();
    if (jit::host_isa() == jit::Isa::avx2) return avx2();
#endif
    return plain();
  }();
  return chosen;
}

}  // namespace

int panel_width() { return 2 * tiles().lanes; }

void pack_panel(const float* matrix, int64_t column_stride, int64_t stride, const float* bias,
                int64_t bias_stride, int64_t count, int64_t depth, float* panel) {
  constexpr int64_t kBlock = 16;  // a block of columns by k stays in the first cache
  const int64_t width = panel_width();
  for (int64_t j = 0; j < width; ++j) panel[j] = bias && j < count ? bias[j * bias_stride] : 0;
  float* rows = panel + width;
  if (count < width) std::fill(rows, rows + depth * width, 0.0f);
  for (int64_t from = 0; from < depth; from += kBlock) {
    const int64_t end = std::min(depth, from + kBlock);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t k = from; k < end; ++k) rows[k * width + j] = matrix[j * column_stride + k * stride];
  }
}

void multiply_panel(const float* x, int64_t x_stride, int64_t rows, const float* panel, int64_t depth,
                    float* y, int64_t y_stride) {
  const Tiles& t = tiles();
  for (int64_t parts = (rows + t.most - 1) / t.most; parts > 0; --parts) {  // tiles of nearly the same size
    const int64_t count = (rows + parts - 1) / parts;
    t.of[static_cast<size_t>(count - 1)](x, x_stride, panel, depth, y, y_stride);
    x += count * x_stride;
    y += count * y_stride;
    rows -= count;
  }
}

void multiply_columns(const float* x, int64_t x_stride, int64_t rows, const float* matrix,
                      int64_t column_stride, const float* bias, int64_t bias_stride, int64_t count,
                      int64_t depth, float* y, int64_t y_stride) {
  const Tiles& t = tiles();
  for (int64_t r = 0; r < rows; r += 2) {
    const int64_t two = std::min<int64_t>(2, rows - r);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = r; i < r + two; ++i) y[i * y_stride + j] = bias ? bias[j * bias_stride] : 0;
    for (int64_t j = 0, step; j < count; j += step) {
      step = count - j < kColumns ? 1 : kColumns;
      t.dots[two - 1][step > 1](x + r * x_stride, x_stride, matrix + j * column_stride, column_stride, depth,
                                y + r * y_stride + j, y_stride);
    }
  }
}

}  // namespace tenon::recurrent
