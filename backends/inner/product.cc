// See product.h. A tile of rows by two vectors of columns stays in registers while k walks along the panel.
#include "backends/inner/product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "jit/llvm/compiler.h"

namespace tenon::inner {
namespace {

// How many sums each element of a tile of R rows has, so that additions do not wait for each other.
constexpr int chains(int R) { return R == 1 ? 4 : R <= 3 ? 2 : 1; }

// The tile of R rows. V: a vector of floats. Inlined into functions that are compiled for an instruction set.
template <class V, int R>
[[gnu::always_inline]] inline void tile(const PanelProduct& p) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(float);
  constexpr int kChains = chains(R);
  V sums[R][2] = {}, left, right;
  if (p.bias) {
    __builtin_memcpy(&left, p.bias, sizeof left);
    __builtin_memcpy(&right, p.bias + kLanes, sizeof right);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      sums[r][0] = left;
      sums[r][1] = right;
    }
  } else if (p.factors) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      __builtin_memcpy(&left, p.y + r * p.y_stride, sizeof left);
      __builtin_memcpy(&right, p.y + r * p.y_stride + kLanes, sizeof right);
      sums[r][0] = p.factors[r] * left;
      sums[r][1] = p.factors[r] * right;
    }
  }
  const float *x = p.x, *panel = p.panel;
  const int64_t x_stride = p.x_stride, panel_stride = p.panel_stride;
  int64_t k = 0;
  if constexpr (kChains > 1) {
    V more[kChains][R][2] = {};
    for (; k + kChains <= p.depth; k += kChains)
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) {
        __builtin_memcpy(&left, panel, sizeof left);
        __builtin_memcpy(&right, panel + kLanes, sizeof right);
        __builtin_prefetch(panel + 16 * panel_stride);
        __builtin_prefetch(panel + 16 * panel_stride + kLanes);
        panel += panel_stride;
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const float a = x[r * x_stride + k + c];
          more[c][r][0] += a * left;
          more[c][r][1] += a * right;
        }
      }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) {
        sums[r][0] += more[c][r][0];
        sums[r][1] += more[c][r][1];
      }
  }
  for (; k < p.depth; ++k) {
    __builtin_memcpy(&left, panel, sizeof left);
    __builtin_memcpy(&right, panel + kLanes, sizeof right);
    panel += panel_stride;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const float a = x[r * x_stride + k];
      sums[r][0] += a * left;
      sums[r][1] += a * right;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    __builtin_memcpy(p.y + r * p.y_stride, &sums[r][0], sizeof left);
    __builtin_memcpy(p.y + r * p.y_stride + kLanes, &sums[r][1], sizeof right);
  }
}

// One of the steps that transpose a square of lanes: exchanges the lanes with bit S of a with those without it of b.
template <class V, size_t S, size_t... J>
[[gnu::always_inline]] inline void exchange(V& a, V& b, std::index_sequence<J...>) {
  constexpr size_t kLanes = sizeof...(J);
  const V low = __builtin_shufflevector(a, b, ((J & S) ? kLanes + J - S : J)...);
  b = __builtin_shufflevector(a, b, ((J & S) ? kLanes + J : J + S)...);
  a = low;
}

template <class V, size_t S, size_t Lanes>
[[gnu::always_inline]] inline void exchange_all(V (&rows)[Lanes]) {
#pragma GCC unroll 16
  for (size_t i = 0; i < Lanes; ++i)
    if ((i & S) == 0) exchange<V, S>(rows[i], rows[i + S], std::make_index_sequence<Lanes>());
}

// Adds up the lanes of each row: lane i of rows[0] becomes the sum of rows[i].
template <class V, size_t S, size_t Lanes>
[[gnu::always_inline]] inline void fold_lanes(V (&rows)[Lanes]) {
#pragma GCC unroll 16
  for (size_t i = 0; i < Lanes; i += 2 * S) {
    exchange<V, S>(rows[i], rows[i + S], std::make_index_sequence<Lanes>());
    rows[i] += rows[i + S];
  }
  if constexpr (2 * S < Lanes) fold_lanes<V, 2 * S>(rows);
}

// A row of x by Count columns of a matrix that is not packed, one or as many as V has lanes: lanes run along k. Adds to y.
template <class V, size_t Count>
[[gnu::always_inline]] inline void dots(const float* x, const float* columns, int64_t column_stride,
                                        int64_t depth, float* y) {
  constexpr size_t kLanes = sizeof(V) / sizeof(float);
  V sums[Count] = {}, a, b;
  int64_t k = 0;
  for (; k + static_cast<int64_t>(kLanes) <= depth; k += kLanes) {
    __builtin_memcpy(&a, x + k, sizeof a);
#pragma GCC unroll 16
    for (size_t c = 0; c < Count; ++c) {
      const float* at = columns + static_cast<int64_t>(c) * column_stride + k;
      __builtin_prefetch(at + static_cast<int64_t>(Count) * column_stride);
      __builtin_memcpy(&b, at, sizeof b);
      sums[c] += a * b;
    }
  }
  float totals[kLanes];
  if constexpr (Count == kLanes) fold_lanes<V, 1>(sums);
  __builtin_memcpy(totals, &sums[0], sizeof totals);
  if constexpr (Count == 1)
    for (size_t i = 1; i < kLanes; ++i) totals[0] += totals[i];
  for (size_t c = 0; c < Count; ++c) {
    for (int64_t i = k; i < depth; ++i)
      totals[c] += x[i] * columns[static_cast<int64_t>(c) * column_stride + i];
    y[c] += totals[c];
  }
}

// Writes the transpose of a square of as many rows as V has lanes.
template <class V>
[[gnu::always_inline]] inline void transpose(const float* from, int64_t from_stride, float* to,
                                             int64_t to_stride) {
  constexpr size_t kLanes = sizeof(V) / sizeof(float);
  V rows[kLanes];
#pragma GCC unroll 16
  for (size_t i = 0; i < kLanes; ++i)
    __builtin_memcpy(&rows[i], from + static_cast<int64_t>(i) * from_stride, sizeof(V));
  exchange_all<V, 1>(rows);
  exchange_all<V, 2>(rows);
  if constexpr (kLanes > 4) exchange_all<V, 4>(rows);
  if constexpr (kLanes > 8) exchange_all<V, 8>(rows);
#pragma GCC unroll 16
  for (size_t i = 0; i < kLanes; ++i)
    __builtin_memcpy(to + static_cast<int64_t>(i) * to_stride, &rows[i], sizeof(V));
}

using DotsFn = void (*)(const float*, const float*, int64_t, int64_t, float*);
using TileFn = void (*)(const PanelProduct&);
using TransposeFn = void (*)(const float*, int64_t, float*, int64_t);
constexpr int kMostRows = 12;
struct Tiles {
  int lanes, most;                        // floats in a vector, rows of the largest tile
  std::array<TileFn, kMostRows> of = {};  // of 1, 2, ... rows
  DotsFn dot = nullptr, dots = nullptr;   // of a row by a column, and by as many columns as there are lanes
  TransposeFn transpose = nullptr;        // of a square of lanes
};

using Vector4 [[gnu::vector_size(16)]] = float;
using Vector8 [[gnu::vector_size(32)]] = float;
using Vector16 [[gnu::vector_size(64)]] = float;

// Defines NAME(), the tiles of an instruction set.
#define TILES(NAME, TARGET, VECTOR, MOST)                                                              \
  template <int R>                                                                                     \
  TARGET void NAME##_tile(const PanelProduct& p) {                                                     \
    tile<VECTOR, R>(p);                                                                                \
  }                                                                                                    \
  TARGET void NAME##_transpose(const float* from, int64_t fs, float* to, int64_t ts) {                 \
    transpose<VECTOR>(from, fs, to, ts);                                                               \
  }                                                                                                    \
  template <size_t Count>                                                                              \
  TARGET void NAME##_dots(const float* x, const float* columns, int64_t cs, int64_t depth, float* y) { \
    dots<VECTOR, Count>(x, columns, cs, depth, y);                                                     \
  }                                                                                                    \
  Tiles NAME() {                                                                                       \
    Tiles made{sizeof(VECTOR) / sizeof(float), MOST};                                                  \
    [&]<size_t... I>(std::index_sequence<I...>) {                                                      \
      ((made.of[I] = NAME##_tile<static_cast<int>(I) + 1>), ...);                                      \
    }(std::make_index_sequence<MOST>());                                                               \
    made.transpose = NAME##_transpose;                                                                 \
    made.dot = NAME##_dots<1>;                                                                         \
    made.dots = NAME##_dots<sizeof(VECTOR) / sizeof(float)>;                                           \
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

void pack_columns(const float* matrix, int64_t column_stride, int64_t stride, int64_t count, int64_t depth,
                  float* panel) {
  const Tiles& t = tiles();
  const int64_t width = panel_width(), square = stride == 1 ? t.lanes : 1;
  if (count < width) std::fill_n(panel, depth * width, 0.0f);
  const int64_t whole_k = square > 1 ? depth - depth % square : 0, whole = count - count % square;
  for (int64_t k = 0; k < whole_k; k += square)
    for (int64_t j = 0; j < whole; j += square)
      t.transpose(matrix + j * column_stride + k, column_stride, panel + k * width + j, width);
  for (int64_t j = whole; j < count; ++j)  // the columns behind the squares, then the elements below them
    for (int64_t k = 0; k < whole_k; ++k) panel[k * width + j] = matrix[j * column_stride + k * stride];
  constexpr int64_t kBlock = 16;  // a block of columns by k stays in the first cache
  for (int64_t from = whole_k; from < depth; from += kBlock)
    for (int64_t j = 0; j < count; ++j)
      for (int64_t k = from; k < std::min(depth, from + kBlock); ++k)
        panel[k * width + j] = matrix[j * column_stride + k * stride];
}

void multiply(const PanelProduct& product) {
  const Tiles& t = tiles();
  PanelProduct part = product;
  int64_t left = product.rows;
  for (int64_t parts = (left + t.most - 1) / t.most; parts > 0; --parts) {  // tiles of nearly the same size
    part.rows = (left + parts - 1) / parts;
    t.of[static_cast<size_t>(part.rows - 1)](part);
    part.x += part.rows * part.x_stride;
    part.y += part.rows * part.y_stride;
    if (part.factors) part.factors += part.rows;
    left -= part.rows;
  }
}

void multiply_columns(const float* x, int64_t x_stride, int64_t rows, const float* matrix,
                      int64_t column_stride, const float* bias, int64_t bias_stride, int64_t count,
                      int64_t depth, float* y, int64_t y_stride) {
  const Tiles& t = tiles();
  for (int64_t j = 0; j < count; j += t.lanes)
    for (int64_t r = 0; r < rows; ++r) {
      float* to = y + r * y_stride + j;
      const int64_t part = std::min<int64_t>(t.lanes, count - j), step = part == t.lanes ? part : 1;
      for (int64_t i = 0; i < part; ++i) to[i] = bias ? bias[(j + i) * bias_stride] : 0;
      for (int64_t i = 0; i < part; i += step)
        (step > 1 ? t.dots : t.dot)(x + r * x_stride, matrix + (j + i) * column_stride, column_stride, depth,
                                    to + i);
    }
}

}  // namespace tenon::inner
