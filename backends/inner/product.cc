// See product.h. A tile of rows by one or two vectors of columns stays in registers while k walks along the panel.
#include "backends/inner/product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/inner/lanes.h"
#include "jit/llvm/compiler.h"

namespace tenon::inner {
namespace {

// How many sums each element of a tile has, so that additions do not wait for each other.
constexpr int chains(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

// The tile of R rows by C vectors of columns. V: a vector of floats or doubles. Inlined into functions that are compiled for an instruction
// set.
template <class V, int R, int C, bool Ahead>
[[gnu::always_inline]] inline void tile(const PanelProductOf<element_of<V>>& p) {
  using T = element_of<V>;
  constexpr int64_t kLanes = lanes_of<V>;
  constexpr int kChains = chains(R);
  V sums[R][C] = {}, row[C];
  const auto load = [&](const T* from) {
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) __builtin_memcpy(&row[c], from + c * kLanes, sizeof row[c]);
  };
  if (p.bias) {
    load(p.bias);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) sums[r][c] = row[c];
  } else if (p.factors) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      load(p.y + r * p.y_stride);
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) sums[r][c] = p.factors[r] * row[c];
    }
  }
  const T *x = p.x, *panel = p.panel;
  const int64_t x_stride = p.x_stride, x_step = p.x_step, panel_stride = p.panel_stride;
  int64_t k = 0;
  if constexpr (kChains > 1) {
    V more[kChains][R][C] = {};
    for (; k + kChains <= p.depth; k += kChains)
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) {
        load(panel);
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) __builtin_prefetch(panel + 16 * panel_stride + c * kLanes);
        panel += panel_stride;
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const T a = x[r * x_stride + (k + chain) * x_step];
#pragma GCC unroll 2
          for (int c = 0; c < C; ++c) more[chain][r][c] += a * row[c];
        }
      }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain)
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) sums[r][c] += more[chain][r][c];
  }
  for (; k < p.depth; ++k) {
    load(panel);
    if constexpr (Ahead) {
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) __builtin_prefetch(panel + p.depth * panel_stride + c * kLanes);
    }
    panel += panel_stride;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const T a = x[r * x_stride + k * x_step];
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) sums[r][c] += a * row[c];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    T* y = p.y + r * p.y_stride;
    if (p.adds) {
      load(y);
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) sums[r][c] += row[c];
    }
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) __builtin_memcpy(y + c * kLanes, &sums[r][c], sizeof row[c]);
  }
}

constexpr int kMostTileRows = 12;
template <class T>
struct Tiles {
  using TileFn = void (*)(const PanelProductOf<T>&);
  int lanes, most;                               // elements of a vector, rows of the largest tile
  std::array<TileFn, kMostTileRows> of = {};     // of 1, 2, ... rows
  std::array<TileFn, kMostTileRows> ahead = {};  // likewise, for PanelProductOf::ahead
  std::array<TileFn, kMostTileRows> half = {};   // of half a panel
  void (*transpose)(const T*, int64_t, T*, int64_t) = nullptr;  // of a square of lanes
};

// Defines NAME(), the tiles of an instruction set for a type of vectors.
#define TILES(NAME, TARGET)                                                      \
  template <class V, int R, int C, bool Ahead>                                   \
  TARGET void NAME##_tile(const PanelProductOf<element_of<V>>& p) {              \
    tile<V, R, C, Ahead>(p);                                                     \
  }                                                                              \
  template <class V, class T>                                                    \
  TARGET void NAME##_transpose(const T* from, int64_t fs, T* to, int64_t ts) {   \
    transpose<V>(from, fs, to, ts);                                              \
  }                                                                              \
  template <class V, int Most, class T = element_of<V>>                          \
  Tiles<T> NAME() {                                                              \
    Tiles<T> made{lanes_of<V>, Most};                                            \
    [&]<size_t... I>(std::index_sequence<I...>) {                                \
      ((made.of[I] = NAME##_tile<V, static_cast<int>(I) + 1, 2, false>), ...);   \
      ((made.ahead[I] = NAME##_tile<V, static_cast<int>(I) + 1, 2, true>), ...); \
      ((made.half[I] = NAME##_tile<V, static_cast<int>(I) + 1, 1, false>), ...); \
    }(std::make_index_sequence<Most>());                                         \
    made.transpose = NAME##_transpose<V, T>;                                     \
    return made;                                                                 \
  }

TILES(plain, )
#if defined(__x86_64__)
TILES(avx2, [[gnu::target("avx2,fma")]])
TILES(avx512, [[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,fma")]])
#endif
#undef TILES

template <class T>
const Tiles<T>& tiles() {
  static const Tiles<T> chosen = [] {
#if defined(__x86_64__)
    if (jit::host_isa() == jit::Isa::avx512) return avx512<typename VectorOf<T, 64>::Type, 12>();
    if (jit::host_isa() == jit::Isa::avx2) return avx2<typename VectorOf<T, 32>::Type, 6>();
#endif
    return plain<typename VectorOf<T, 16>::Type, 6>();
  }();
  return chosen;
}

template <class T>
void pack(const T* matrix, int64_t column_stride, int64_t stride, int64_t count, int64_t depth, T* panel) {
  const Tiles<T>& t = tiles<T>();
  const int64_t width = panel_width_of<T>(), square = stride == 1 ? t.lanes : 1;
  if (count < width) std::fill_n(panel, depth * width, T{});
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

template <class T>
void multiply_rows(const PanelProductOf<T>& product) {
  const Tiles<T>& t = tiles<T>();
  const auto& of = product.columns <= t.lanes ? t.half : product.ahead ? t.ahead : t.of;
  PanelProductOf<T> part = product;
  int64_t left = product.rows;
  for (int64_t parts = (left + t.most - 1) / t.most; parts > 0; --parts) {  // tiles of nearly the same size
    part.rows = (left + parts - 1) / parts;
    of[static_cast<size_t>(part.rows - 1)](part);
    part.x += part.rows * part.x_stride;
    part.y += part.rows * part.y_stride;
    if (part.factors) part.factors += part.rows;
    left -= part.rows;
  }
}

}  // namespace

template <class T>
int panel_width_of() {
  return 2 * tiles<T>().lanes;
}
template int panel_width_of<float>();
template int panel_width_of<double>();

void pack_columns(const float* matrix, int64_t column_stride, int64_t stride, int64_t count, int64_t depth,
                  float* panel) {
  pack(matrix, column_stride, stride, count, depth, panel);
}
void pack_columns(const double* matrix, int64_t column_stride, int64_t stride, int64_t count, int64_t depth,
                  double* panel) {
  pack(matrix, column_stride, stride, count, depth, panel);
}

void multiply(const PanelProduct& product) { multiply_rows(product); }
void multiply(const PanelProductOf<double>& product) { multiply_rows(product); }

}  // namespace tenon::inner
