// Vectors of floats and of doubles, and functions that are inlined into code for one instruction set. Tested by
// tests/unit/backends/product_test.cc and few_rows_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tenon::inner {

template <class T, size_t Bytes>
struct VectorOf {
  using Type [[gnu::vector_size(Bytes)]] = T;
};
using Vector4 = VectorOf<float, 16>::Type;
using Vector8 = VectorOf<float, 32>::Type;
using Vector16 = VectorOf<float, 64>::Type;
template <class V>
using half_of = VectorOf<float, sizeof(V) / 2>::Type;
template <class V>
using element_of = std::remove_reference_t<decltype(std::declval<V&>()[0])>;
template <class V>
constexpr size_t lanes_of = sizeof(V) / sizeof(element_of<V>);

// Elements of 16 bits.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

template <size_t Lanes>
struct Integers {
  using Narrow [[gnu::vector_size(2 * Lanes)]] = uint16_t;
  using Wide [[gnu::vector_size(4 * Lanes)]] = uint32_t;
};

// Reads as many elements as V has lanes, as f32. Vectors are no results, since functions without an instruction set cannot return them.
template <class V>
[[gnu::always_inline]] inline void widen(const float* from, V& to) {
  __builtin_memcpy(&to, from, sizeof to);
}
template <class V, class Element>
[[gnu::always_inline]] inline void widen(const Element* from, V& to) {
  using Wide = typename Integers<lanes_of<V>>::Wide;
  typename Integers<lanes_of<V>>::Narrow narrow;
  __builtin_memcpy(&narrow, from, sizeof narrow);
  Wide bits = __builtin_convertvector(narrow, Wide);
  if constexpr (std::is_same_v<Element, Bf16>) {
    bits <<= 16;
  } else {
    const Wide magnitude = (bits & 0x7fff) << 13;  // the exponent is 112 too small
    const Wide special = reinterpret_cast<Wide>(magnitude >= 0x7c00u << 13) & 0x7f800000u;
    const V scaled = reinterpret_cast<V>(magnitude) * 0x1p112f;
    bits = reinterpret_cast<Wide>(scaled) | special | (bits & 0x8000) << 16;
  }
  to = reinterpret_cast<V>(bits);
}
// Reads the first `count` elements; the other lanes become zeros.
template <class V, class Element>
[[gnu::always_inline]] inline void widen_part(const Element* from, size_t count, V& to) {
  Element all[lanes_of<V>] = {};
  for (size_t i = 0; i < count; ++i) all[i] = from[i];
  widen(static_cast<const Element*>(all), to);
}

// All bits of the last `count` lanes.
template <class V>
[[gnu::always_inline]] inline void last_lanes(size_t count, typename Integers<lanes_of<V>>::Wide& to) {
  typename Integers<lanes_of<V>>::Wide lane;
  for (size_t i = 0; i < lanes_of<V>; ++i) lane[i] = static_cast<uint32_t>(i);
  to = reinterpret_cast<typename Integers<lanes_of<V>>::Wide>(lane >=
                                                              static_cast<uint32_t>(lanes_of<V> - count));
}
// Reads the lanes_of<V> elements before `end`; lanes without bits in `keep` become zeros.
template <class V, class Element>
[[gnu::always_inline]] inline void widen_last(const Element* end,
                                              const typename Integers<lanes_of<V>>::Wide& keep, V& to) {
  widen(end - lanes_of<V>, to);
  to = reinterpret_cast<V>(reinterpret_cast<typename Integers<lanes_of<V>>::Wide>(to) & keep);
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

// Writes the transpose of a square of as many rows as V has lanes.
template <class V>
[[gnu::always_inline]] inline void transpose(const element_of<V>* from, int64_t from_stride,
                                             element_of<V>* to, int64_t to_stride) {
  constexpr size_t kLanes = lanes_of<V>;
  V rows[kLanes];
#pragma GCC unroll 16
  for (size_t i = 0; i < kLanes; ++i)
    __builtin_memcpy(&rows[i], from + static_cast<int64_t>(i) * from_stride, sizeof(V));
  exchange_all<V, 1>(rows);
  if constexpr (kLanes > 2) exchange_all<V, 2>(rows);
  if constexpr (kLanes > 4) exchange_all<V, 4>(rows);
  if constexpr (kLanes > 8) exchange_all<V, 8>(rows);
#pragma GCC unroll 16
  for (size_t i = 0; i < kLanes; ++i)
    __builtin_memcpy(to + static_cast<int64_t>(i) * to_stride, &rows[i], sizeof(V));
}

}  // namespace tenon::inner
