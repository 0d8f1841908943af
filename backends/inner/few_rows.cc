// See few_rows.h. Two orders of the matrix: columns that are dense along the depth are summed lane by lane, a few at a time; rows that
// are dense along the columns are added to y, a few rows at a time.
#include "backends/inner/few_rows.h"

#include <algorithm>

#include "backends/inner/isa.h"
#include "backends/inner/lanes.h"

namespace tenon::inner {
namespace {

// Bytes from an element to the one that is fetched meanwhile; the processor itself fetches nothing across the end of a page.
constexpr int64_t kAhead = 1024, kFarAhead = 2048;

// Memory delivers several streams faster than one.
template <class V, size_t Rows>
constexpr size_t columns_at_once = std::min<size_t>(4, lanes_of<V> / Rows);

// Multiplies Rows rows of x by `count` <= Columns columns that are `apart` columns away from each other. Each product is summed in kChains
// vectors; all products together take as many vectors as V has lanes.
template <class V, class Element, size_t Rows, size_t Columns>
[[gnu::always_inline]] inline void sum_columns(const FewRows& p, const float* x, float* y, int64_t column,
                                               int64_t apart, int64_t count) {
  constexpr size_t kLanes = lanes_of<V>, kChains = kLanes / Rows / Columns;
  const Element* columns[Columns];  // columns behind the last are the last one again
#pragma GCC unroll 16
  for (size_t c = 0; c < Columns; ++c)
    columns[c] = static_cast<const Element*>(p.matrix) +
                 (column + std::min(static_cast<int64_t>(c), count - 1) * apart) * p.column_stride;
  V sums[Rows][Columns][kChains] = {};
  const auto add = [&](int64_t k, size_t chain, auto load) __attribute__((always_inline)) {
    V rows[Rows];
#pragma GCC unroll 4
    for (size_t r = 0; r < Rows; ++r) load(x + static_cast<int64_t>(r) * p.x_stride + k, rows[r]);
#pragma GCC unroll 16
    for (size_t c = 0; c < Columns; ++c) {
      __builtin_prefetch(reinterpret_cast<const char*>(columns[c] + k) + kAhead);
      V element;
      load(columns[c] + k, element);
#pragma GCC unroll 4
      for (size_t r = 0; r < Rows; ++r) sums[r][c][chain] += rows[r] * element;
    }
  };
  const auto whole = [](const auto* from, V& to) __attribute__((always_inline)) { widen(from, to); };
  constexpr auto kStep = static_cast<int64_t>(kLanes);
  int64_t k = 0;
  for (; k + static_cast<int64_t>(kChains) * kStep <= p.depth; k += static_cast<int64_t>(kChains) * kStep)
#pragma GCC unroll 4
    for (size_t chain = 0; chain < kChains; ++chain)
      add(k + static_cast<int64_t>(chain) * kStep, chain, whole);
  for (; k + kStep <= p.depth; k += kStep) add(k, 0, whole);
  if (const auto rest = static_cast<size_t>(p.depth - k); rest > 0 && k > 0) {
    typename Integers<kLanes>::Wide keep;
    last_lanes<V>(rest, keep);
    add(p.depth, 0,
        [&keep](const auto* end, V& to) __attribute__((always_inline)) { widen_last(end, keep, to); });
  } else if (rest > 0) {
    add(k, 0, [rest](const auto* from, V& to) __attribute__((always_inline)) { widen_part(from, rest, to); });
  }
  fold_lanes<V, 1>(reinterpret_cast<V(&)[kLanes]>(sums));
  float totals[Rows][Columns][kChains];
  __builtin_memcpy(totals, &sums[0][0][0], sizeof totals);
  for (size_t r = 0; r < Rows; ++r)
    for (size_t c = 0; c < std::min(Columns, static_cast<size_t>(count)); ++c) {
      const auto at = column + static_cast<int64_t>(c) * apart;
      float total = p.bias ? p.bias[at * p.bias_stride] : 0;
      for (size_t chain = 0; chain < kChains; ++chain) total += totals[r][c][chain];
      y[static_cast<int64_t>(r) * p.y_stride + at] = total;
    }
}

// Adds Depth rows of the matrix that are `apart` rows away from each other, each times its element of x, to Rows rows of y.
template <class V, class Element, size_t Rows, size_t Depth, int64_t Ahead>
[[gnu::always_inline]] inline void add_rows(const FewRows& p, const float* x, float* y, int64_t k,
                                            int64_t apart, int64_t from, int64_t end) {
  constexpr auto kLanes = static_cast<int64_t>(lanes_of<V>);
  const Element* matrix = static_cast<const Element*>(p.matrix) + k * p.stride;
  float factors[Rows][Depth];
  for (size_t r = 0; r < Rows; ++r)
    for (size_t d = 0; d < Depth; ++d)
      factors[r][d] = x[static_cast<int64_t>(r) * p.x_stride + k + static_cast<int64_t>(d) * apart];
  const auto add = [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
    V elements[Depth];
#pragma GCC unroll 8
    for (size_t d = 0; d < Depth; ++d) {
      const Element* element = matrix + static_cast<int64_t>(d) * apart * p.stride + j;
      __builtin_prefetch(reinterpret_cast<const char*>(element) + Ahead);
      load(element, elements[d]);
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < Rows; ++r) {
      float* at = y + static_cast<int64_t>(r) * p.y_stride + j;
      V before, sum;
      load(const_cast<const float*>(at), before);
      sum = before;
#pragma GCC unroll 8
      for (size_t d = 0; d < Depth; ++d) sum += factors[r][d] * elements[d];
      store(at, before, sum);
    }
  };
  const auto read = [](const auto* at, V& to) __attribute__((always_inline)) { widen(at, to); };
  const int64_t whole = end - (end - from) % kLanes;
  for (int64_t j = from; j < whole; j += kLanes)
    add(j, read, [](float* at, const V&, const V& sum) __attribute__((always_inline)) {
      __builtin_memcpy(at, &sum, sizeof sum);
    });
  if (const auto rest = static_cast<size_t>(end - whole); rest > 0 && whole > from) {
    typename Integers<lanes_of<V>>::Wide fresh;
    last_lanes<V>(rest, fresh);
    add(end - kLanes, read,
        [&fresh](float* at, const V& before, const V& sum) __attribute__((always_inline)) {
          using Wide = typename Integers<lanes_of<V>>::Wide;
          const Wide all = (reinterpret_cast<Wide>(sum) & fresh) | (reinterpret_cast<Wide>(before) & ~fresh);
          __builtin_memcpy(at, &all, sizeof all);
        });
  } else if (rest > 0) {
    add(
        whole, [rest](const auto* at, V& to) __attribute__((always_inline)) { widen_part(at, rest, to); },
        [rest](float* at, const V&, const V& sum)
            __attribute__((always_inline)) { __builtin_memcpy(at, &sum, rest * sizeof(float)); });
  }
}

template <class V, class Element, size_t Rows>
[[gnu::always_inline]] inline void multiply_as(const FewRows& p, const float* x, float* y, int64_t from,
                                               int64_t end) {
  constexpr auto kLanes = static_cast<int64_t>(lanes_of<V>);
  if constexpr (kLanes > 4)
    if ((p.stride == 1 ? p.depth : end - from) < kLanes)
      return multiply_as<half_of<V>, Element, Rows>(p, x, y, from, end);
  if (p.stride == 1) {
    constexpr auto kColumns = static_cast<int64_t>(columns_at_once<V, Rows>), kMost = kLanes / int64_t{Rows};
    if (p.depth < kLanes * kMost / kColumns) {  // too short for several chains
      for (int64_t j = from; j < end; j += kMost)
        sum_columns<V, Element, Rows, static_cast<size_t>(kMost)>(p, x, y, j, 1, std::min(kMost, end - j));
      return;
    }
    const int64_t apart = (end - from) / kColumns, rest = (end - from) % kColumns;
    constexpr auto kAtOnce = static_cast<size_t>(kColumns);
    for (int64_t j = 0; j < apart; ++j)
      sum_columns<V, Element, Rows, kAtOnce>(p, x, y, from + j, apart, kColumns);
    if (rest > 0) sum_columns<V, Element, Rows, kAtOnce>(p, x, y, end - rest, 1, rest);
    return;
  }
  constexpr int64_t kPart = 4096 / Rows;  // columns of y that stay in the first cache
  for (int64_t part = from; part < end; part += kPart) {
    const int64_t part_end = std::min(end, part + kPart);
    for (int64_t r = 0; r < static_cast<int64_t>(Rows); ++r)
      for (int64_t j = part; j < part_end; ++j)
        y[r * p.y_stride + j] = p.bias ? p.bias[j * p.bias_stride] : 0;
    constexpr int64_t kFar = 4, kNear = 8;
    int64_t k = 0;
    if (p.far) {
      const int64_t apart = p.depth / kFar;
      for (; k < apart; ++k) add_rows<V, Element, Rows, kFar, kFarAhead>(p, x, y, k, apart, part, part_end);
      k = apart * kFar;
    }
    for (; k + kNear <= p.depth; k += kNear)
      add_rows<V, Element, Rows, kNear, kAhead>(p, x, y, k, 1, part, part_end);
    for (; k < p.depth; ++k) add_rows<V, Element, Rows, 1, kAhead>(p, x, y, k, 1, part, part_end);
  }
}

using MultiplyFn = void (*)(const FewRows&, const float*, float*, int64_t, int64_t);
constexpr int64_t kMostRows = 4;
struct Functions {
  MultiplyFn of[3][3];  // by dtype (f32, bf16, f16), then for 1, 2 and 4 rows
};

// Defines NAME(), the functions of an instruction set.
#define FUNCTIONS(NAME, TARGET, VECTOR)                                                                \
  template <class Element, size_t Rows>                                                                \
  TARGET void NAME##_multiply(const FewRows& p, const float* x, float* y, int64_t from, int64_t end) { \
    multiply_as<VECTOR, Element, Rows>(p, x, y, from, end);                                            \
  }                                                                                                    \
  Functions NAME() {                                                                                   \
    return {{{NAME##_multiply<float, 1>, NAME##_multiply<float, 2>, NAME##_multiply<float, 4>},        \
             {NAME##_multiply<Bf16, 1>, NAME##_multiply<Bf16, 2>, NAME##_multiply<Bf16, 4>},           \
             {NAME##_multiply<F16, 1>, NAME##_multiply<F16, 2>, NAME##_multiply<F16, 4>}}};            \
  }

TENON_EACH_ISA(FUNCTIONS, rows)
#undef FUNCTIONS

const Functions& functions() {
  static const Functions chosen = TENON_BY_ISA(rows);
  return chosen;
}

}  // namespace

void multiply(const FewRows& p, int64_t from, int64_t end) {
  const auto& of = functions().of[p.dtype == DType::f32 ? 0 : p.dtype == DType::bf16 ? 1 : 2];
  for (int64_t r = 0; r < p.rows;) {
    const int64_t left = p.rows - r, rows = left >= kMostRows ? kMostRows : left >= 2 ? 2 : 1;
    of[rows / 2](p, p.x + r * p.x_stride, p.y + r * p.y_stride, from, end);
    r += rows;
  }
}

}  // namespace tenon::inner
