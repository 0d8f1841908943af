// See product.h. A tile of rows by two vectors of columns stays in registers while k walks along the panel.
#include "backends/inner/product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/inner/lanes.h"
#include "jit/llvm/compiler.h"

namespace tenon::inner {
namespace {

// How many sums each element of a tile of R rows has, so that additions do not wait for each other.
constexpr int chains(int R) { return R == 1 ? 4 : R <= 3 ? 2 : 1; }

// The tile of R rows. V: a vector of floats. Inlined into functions that are compiled for an instruction set.
template <class V, int R, bool Ahead>
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
  const int64_t x_stride = p.x_stride, x_step = p.x_step, panel_stride = p.panel_stride;
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
          const float a = x[r * x_stride + (k + c) * x_step];
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
    if constexpr (Ahead) {
      __builtin_prefetch(panel + p.depth * panel_stride);
      __builtin_prefetch(panel + p.depth * panel_stride + kLanes);
    }
    panel += panel_stride;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const float a = x[r * x_stride + k * x_step];
      sums[r][0] += a * left;
      sums[r][1] += a * right;
    }
  }
  if (p.adds) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      __builtin_memcpy(&left, p.y + r * p.y_stride, sizeof left);
      __builtin_memcpy(&right, p.y + r * p.y_stride + kLanes, sizeof right);
      sums[r][0] += left;
      sums[r][1] += right;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    __builtin_memcpy(p.y + r * p.y_stride, &sums[r][0], sizeof left);
    __builtin_memcpy(p.y + r * p.y_stride + kLanes, &sums[r][1], sizeof right);
  }
}

using TileFn = void (*)(const PanelProduct&);
using TransposeFn = void (*)(const float*, int64_t, float*, int64_t);
constexpr int kMostRows = 12;
struct Tiles {
  int lanes, most;                           // floats in a vector, rows of the largest tile
  std::array<TileFn, kMostRows> of = {};     // of 1, 2, ... rows
  std::array<TileFn, kMostRows> ahead = {};  // likewise, for PanelProduct::ahead
  TransposeFn transpose = nullptr;           // of a square of lanes
};

// Defines NAME(), the tiles of an instruction set.
#define TILES(NAME, TARGET, VECTOR, MOST)                                              \
  template <int R, bool Ahead>                                                         \
  TARGET void NAME##_tile(const PanelProduct& p) {                                     \
    tile<VECTOR, R, Ahead>(p);                                                         \
  }                                                                                    \
  TARGET void NAME##_transpose(const float* from, int64_t fs, float* to, int64_t ts) { \
    transpose<VECTOR>(from, fs, to, ts);                                               \
  }                                                                                    \
  Tiles NAME() {                                                                       \
    Tiles made{sizeof(VECTOR) / sizeof(float), MOST};                                  \
    [&]<size_t... I>(std::index_sequence<I...>) {                                      \
      ((made.of[I] = NAME##_tile<static_cast<int>(I) + 1, false>), ...);               \
      ((made.ahead[I] = NAME##_tile<static_cast<int>(I) + 1, true>), ...);             \
    }(std::make_index_sequence<MOST>());                                               \
    made.transpose = NAME##_transpose;                                                 \
    return made;                                                                       \
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
  const auto& of = product.ahead ? t.ahead : t.of;
  PanelProduct part = product;
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

}  // namespace tenon::inner
