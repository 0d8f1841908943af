// See tiny_products.h. A tile of a few rows by one or two vectors of columns stays in registers while k walks along the depth. The vectors
// are no longer than the rows, and the last one ends where the row ends, so it may repeat columns of the one before it: nothing is read or
// written outside of the matrices. Matrices whose columns are not dense are copied, a group of them at a time.
#include "backends/inner/tiny_products.h"

#include <algorithm>
#include <bit>
#include <span>

#include "backends/inner/isa.h"
#include "backends/inner/lanes.h"
#include "src/base/align.h"

namespace tenon::inner {
namespace {

// A part of the rows and of the columns of all products.
template <class T>
struct TinyTile {
  TinyProducts<T> of;
  int64_t last;  // the column of the last vector
};

// V: a vector; Vectors of them cover the columns.
template <class V, int Vectors, int Rows>
[[gnu::always_inline]] inline void multiply_tile(const TinyTile<element_of<V>>& tile) {
  using T = element_of<V>;
  const TinyProducts<T>& p = tile.of;
  const T *a = p.a.at, *b = p.b.at;
  T* y = p.y.at;
  const int64_t a_row = p.a.row, a_column = p.a.column, b_row = p.b.row, y_row = p.y.row, last = tile.last;
  for (int64_t i = 0; i < p.count; ++i) {
    V sums[Rows][Vectors] = {}, row[Vectors];
    const T *a_at = a, *b_at = b;
    for (int64_t k = 0; k < p.depth; ++k, a_at += a_column, b_at += b_row) {
      __builtin_memcpy(&row[0], b_at, sizeof(V));
      if constexpr (Vectors > 1) __builtin_memcpy(&row[1], b_at + last, sizeof(V));
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
        for (int c = 0; c < Vectors; ++c) sums[r][c] += a_at[r * a_row] * row[c];
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      __builtin_memcpy(y + r * y_row, &sums[r][0], sizeof(V));
      if constexpr (Vectors > 1) __builtin_memcpy(y + r * y_row + last, &sums[r][1], sizeof(V));
    }
    a += p.a.next;
    b += p.b.next;
    y += p.y.next;
  }
}

// The rows of the largest tiles of one and of two vectors, whose sums fit into 16 registers.
constexpr size_t kOneVectorRows = 8, kTwoVectorsRows = 6;
template <class T>
using TinyTileFn = void (*)(const TinyTile<T>&);
template <class T>
struct TinyTiles {
  TinyTileFn<T> one[kOneVectorRows], two[kTwoVectorsRows];  // vectors, by rows - 1
};
template <class T>
struct TinyFunctions {
  TinyTiles<T> of[5];  // by log2 of the lanes
  int64_t most_lanes;
  void (*transpose)(const T* from, int64_t from_stride, T* to, int64_t to_stride);  // of 4x4 elements
};

// Defines NAME<T>(), the functions of an instruction set for a type of elements.
#define FUNCTIONS(NAME, TARGET, VECTOR)                                                           \
  template <class V, int Vectors, int Rows>                                                       \
  TARGET void NAME##_tile(const TinyTile<element_of<V>>& tile) {                                  \
    multiply_tile<V, Vectors, Rows>(tile);                                                        \
  }                                                                                               \
  template <class T>                                                                              \
  TARGET void NAME##_transpose(const T* from, int64_t from_stride, T* to, int64_t to_stride) {    \
    transpose<typename VectorOf<T, 4 * sizeof(T)>::Type>(from, from_stride, to, to_stride);       \
  }                                                                                               \
  template <class V, class T, size_t... One, size_t... Two>                                       \
  TinyTiles<T> NAME##_tiles(std::index_sequence<One...>, std::index_sequence<Two...>) {           \
    return {{NAME##_tile<V, 1, One + 1>...}, {NAME##_tile<V, 2, Two + 1>...}};                    \
  }                                                                                               \
  template <class T, size_t Log>                                                                  \
  void NAME##_add(TinyFunctions<T>& to) {                                                         \
    constexpr size_t kBytes = sizeof(T) << Log;                                                   \
    to.of[Log] = NAME##_tiles<typename VectorOf<T, kBytes>::Type, T>(                             \
        std::make_index_sequence<kOneVectorRows>(), std::make_index_sequence<kTwoVectorsRows>()); \
    to.most_lanes = 1 << Log;                                                                     \
    if constexpr (kBytes < sizeof(VECTOR)) NAME##_add<T, Log + 1>(to);                            \
  }                                                                                               \
  template <class T>                                                                              \
  TinyFunctions<T> NAME() {                                                                       \
    TinyFunctions<T> made;                                                                        \
    NAME##_add<T, 1>(made);                                                                       \
    made.transpose = NAME##_transpose<T>;                                                         \
    return made;                                                                                  \
  }

TENON_EACH_ISA(FUNCTIONS, tiny)
#undef FUNCTIONS

template <class T>
const TinyFunctions<T>& tiny_functions() {
  static const TinyFunctions<T> chosen = TENON_BY_ISA(tiny<T>);
  return chosen;
}

// Computes products whose matrices b and y have dense columns.
template <class T>
void multiply_dense(const TinyProducts<T>& p) {
  const TinyFunctions<T>& f = tiny_functions<T>();
  const int64_t width = std::bit_floor(static_cast<uint64_t>(p.columns)),
                lanes = std::min(f.most_lanes, width);
  const TinyTiles<T>& tiles = f.of[std::countr_zero(static_cast<uint64_t>(lanes))];
  for (int64_t from = 0; from < p.columns; from += 2 * lanes) {
    const int64_t column = std::min(from, p.columns - lanes);
    TinyTile<T> tile{p, std::min(lanes, p.columns - lanes - column)};
    tile.of.b.at += column;
    tile.of.y.at += column;
    const auto of =
        tile.last > 0 ? std::span<const TinyTileFn<T>>(tiles.two) : std::span<const TinyTileFn<T>>(tiles.one);
    int64_t left = p.rows;
    for (int64_t parts = ceil_div(left, std::ssize(of)); parts > 0;
         --parts) {  // tiles of nearly the same size
      const int64_t rows = ceil_div(left, parts);
      of[static_cast<size_t>(rows - 1)](tile);
      tile.of.a.at += rows * p.a.row;
      tile.of.y.at += rows * p.y.row;
      left -= rows;
    }
  }
}

// Copies `count` matrices to dense ones.
template <class T>
void copy_tiny(TinyMatrices<const T> from, T* to, int64_t count, int64_t rows, int64_t columns) {
  const TinyFunctions<T>& f = tiny_functions<T>();
  const bool squares = from.row == 1;  // the matrices are transposed, which squares are at once
  const int64_t whole_rows = squares ? rows - rows % 4 : 0, whole = squares ? columns - columns % 4 : 0;
  for (int64_t i = 0; i < count; ++i, from.at += from.next, to += rows * columns) {
    for (int64_t r = 0; r < whole_rows; r += 4)
      for (int64_t c = 0; c < whole; c += 4)
        f.transpose(from.at + r + c * from.column, from.column, to + r * columns + c, columns);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = r < whole_rows ? whole : 0; c < columns; ++c)
        to[r * columns + c] = from.at[r * from.row + c * from.column];
  }
}

template <class T>
void multiply_groups(const TinyProducts<T>& p) {
  constexpr int64_t kElements = 1024;  // of a group: it stays in the first cache
  static_assert(kElements >= kMostTiny * kMostTiny);
  alignas(64) T b_copy[kElements], y_copy[kElements];
  const int64_t b_size = p.depth * p.columns, y_size = p.rows * p.columns;
  const int64_t group = kElements / std::max(b_size, y_size);
  for (int64_t i = 0; i < p.count; i += group) {
    TinyProducts<T> part = p;
    part.count = std::min(group, p.count - i);
    part.a.at += i * p.a.next;
    part.b.at += i * p.b.next;
    part.y.at += i * p.y.next;
    if (p.b.column != 1) {
      copy_tiny<T>(part.b, b_copy, p.b.next == 0 ? 1 : part.count, p.depth, p.columns);
      part.b = {b_copy, p.columns, 1, p.b.next == 0 ? 0 : b_size};
    }
    if (p.y.column == 1) {
      multiply_dense(part);
      continue;
    }
    const auto to = part.y;
    part.y = {y_copy, p.columns, 1, y_size};
    multiply_dense(part);
    for (int64_t m = 0; m < part.count; ++m)
      for (int64_t r = 0; r < p.rows; ++r)
        for (int64_t c = 0; c < p.columns; ++c)
          to.at[m * to.next + r * to.row + c * to.column] = y_copy[m * y_size + r * p.columns + c];
  }
}

}  // namespace

void multiply(const TinyProducts<float>& products) { multiply_groups(products); }
void multiply(const TinyProducts<double>& products) { multiply_groups(products); }

}  // namespace tenon::inner
