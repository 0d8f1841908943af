// See order.h.
#include "backends/rows/order.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/rows/keys.h"

namespace tenon::rows {
namespace {

// The entry of an element of up to 32 bits: the key in the upper half, the index in the lower half.
struct Packed {
  uint64_t bits;
  template <class Key>
  static Packed of(Key key, uint32_t place) {
    return {uint64_t{key} << 32 | place};
  }
  uint64_t key() const { return bits >> 32; }
  uint32_t place() const { return static_cast<uint32_t>(bits); }
  bool operator<(const Packed& o) const { return bits < o.bits; }
};

struct Wide {
  uint64_t of_key;
  uint64_t of_place;
  static Wide of(uint64_t key, uint32_t place) { return {key, place}; }
  uint64_t key() const { return of_key; }
  uint32_t place() const { return static_cast<uint32_t>(of_place); }
  bool operator<(const Wide& o) const {
    return of_key != o.of_key ? of_key < o.of_key : of_place < o.of_place;
  }
};

template <class Key>
using Entry = std::conditional_t<sizeof(Key) <= 4, Packed, Wide>;

constexpr int64_t kCompared = 64;      // rows up to this length are sorted by comparison
constexpr int64_t kWideDigits = 4096;  // from this length on, the radix sort takes digits of 11 bits
constexpr int64_t kShareOfRow =
    8;  // fewer positions than length / kShareOfRow are selected first; only they are sorted
constexpr int64_t kShareOfHeap =
    64;  // the same bound for a heap of the first positions, which later elements seldom enter
constexpr int64_t kShareOfSelection = 64;  // PyTorch sorts fewer positions than length / kShareOfSelection
constexpr int64_t kFewFirst = 8;  // up to so many first positions come from a heap, in rows of any length
constexpr int64_t kBlock =
    16;  // elements compared with the heap's largest at once; few blocks contain a smaller one

enum class Way { select, compare, digits, heap, bins };
Way way_of(const OrderRow& row) {
  if (row.selects && row.count > row.length / kShareOfSelection) return Way::select;
  if (row.start + row.count <= std::min(kFewFirst, row.length / 2)) return Way::heap;
  if (row.length <= kCompared) return Way::compare;
  if (row.count >= row.length / kShareOfRow) return Way::digits;
  return row.start + row.count < row.length / kShareOfHeap ? Way::heap : Way::bins;
}

// Sorts n entries by their keys of kKeyBits bits, stably. Returns the array that holds the result: `from` or `to`.
template <class E, int kKeyBits, int kDigit>
E* sort_by_digits(E* from, E* to, int64_t n) {
  constexpr int kPasses = (kKeyBits + kDigit - 1) / kDigit;
  constexpr uint64_t kMask = (uint64_t{1} << kDigit) - 1;
  std::array<std::array<uint32_t, size_t{1} << kDigit>, kPasses> counts;
  for (auto& c : counts) c.fill(0);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t key = from[i].key();
    for (int pass = 0; pass < kPasses; ++pass)
      ++counts[static_cast<size_t>(pass)][key >> (pass * kDigit) & kMask];
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    auto& count = counts[static_cast<size_t>(pass)];
    const int shift = pass * kDigit;
    if (count[from[0].key() >> shift & kMask] == n) continue;  // all keys share this digit
    uint32_t next = 0;
    for (uint32_t& c : count) next += std::exchange(c, next);
    for (int64_t i = 0; i < n; ++i) to[count[from[i].key() >> shift & kMask]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

template <class Keys, bool kDescending>
struct Order {
  using Stored = typename Keys::Stored;
  using Key = typename Keys::Key;
  using E = Entry<Key>;

  static Key key(const Stored* x, int64_t stride, int64_t i) {
    const Key key = Keys::of(x[i * stride]);
    return kDescending ? static_cast<Key>(~key) : key;
  }
  static E entry(const Stored* x, int64_t stride, int64_t i) {
    return E::of(key(x, stride, i), static_cast<uint32_t>(i));
  }

  // Whether one of the kBlock elements at x has a key below `limit`.
  static bool any_below(const Stored* x, Key limit) {
    Key below = 0;
    for (int64_t j = 0; j < kBlock; ++j) below |= key(x, 1, j) < limit;
    return below != 0;
  }

  // Keeps the smallest entries so far in a heap. An element that equals the largest of the heap does not enter, since its index
  // is higher.
  static E* by_heap(const OrderRow& row, const Stored* x, E* found) {
    E* const end = found + row.start + row.count;
    int64_t i = 0;
    for (E* e = found; e < end; ++e, ++i) *e = entry(x, row.stride, i);
    std::make_heap(found, end);
    while (i < row.length) {
      const int64_t stop = std::min(i + kBlock, row.length);
      if (row.stride == 1 && stop - i == kBlock && !any_below(x + i, static_cast<Key>(found->key()))) {
        i = stop;
        continue;
      }
      for (; i < stop; ++i) {
        const E e = entry(x, row.stride, i);
        if (!(e < *found)) continue;
        std::pop_heap(found, end);
        end[-1] = e;
        std::push_heap(found, end);
      }
    }
    std::sort_heap(found, end);
    return found + row.start;
  }

  // Counts the upper digits of all keys. Keeps only the entries whose digit lies between those of the first and the last wanted
  // position, and selects among them.
  static E* by_bins(const OrderRow& row, const Stored* x, E* found) {
    constexpr int kBits = 8 * sizeof(Key), kDigit = std::min(kBits, 11), kShift = kBits - kDigit;
    std::array<uint32_t, size_t{1} << kDigit> counts{};
    for (int64_t i = 0; i < row.length; ++i) ++counts[key(x, row.stride, i) >> kShift];
    int64_t before = 0;
    uint32_t first = 0;
    while (before + counts[first] <= row.start) before += counts[first++];
    const int64_t last_place = row.start + row.count - 1;
    uint32_t last = first;
    for (int64_t upto = before; upto + counts[last] <= last_place;) upto += counts[last++];
    int64_t n = 0;
    for (int64_t i = 0; i < row.length; ++i) {
      const Key k = key(x, row.stride, i);
      found[n] = E::of(k, static_cast<uint32_t>(i));
      n += (k >> kShift) - first <= last - first;
    }
    E *const begin = found + (row.start - before), *const end = begin + row.count;
    std::nth_element(found, begin, found + n);
    if (row.count > 1) {
      std::nth_element(begin, end - 1, found + n);
      std::sort(begin, end);
    }
    return begin;
  }

  static void run(const OrderRow& row, const void* at, int64_t* result, char* scratch) {
    if (row.count == 0) return;
    const Stored* x = static_cast<const Stored*>(at);
    E* entries = reinterpret_cast<E*>(scratch);
    const int64_t n = row.length;
    const Way way = way_of(row);
    if (way == Way::heap) {
      entries = by_heap(row, x, entries);
    } else if (way == Way::bins) {
      entries = by_bins(row, x, entries);
    } else {
      for (int64_t i = 0; i < n; ++i) entries[i] = entry(x, row.stride, i);
      constexpr int kBits = 8 * sizeof(Key);
      if (way == Way::select)
        std::nth_element(entries, entries + row.count - 1, entries + n,
                         [](const E& a, const E& b) { return a.key() < b.key(); });
      else if (way == Way::compare)
        std::sort(entries, entries + n);
      else if (kBits > 16 && n >= kWideDigits)
        entries = sort_by_digits<E, kBits, 11>(entries, entries + n, n);
      else
        entries = sort_by_digits<E, kBits, 8>(entries, entries + n, n);
      entries += row.start;
    }
    for (int64_t i = 0; i < row.count; ++i) result[i * row.result_stride] = entries[i].place();
  }
};

}  // namespace

OrderFn order_of(DType dtype, bool descending) {
  return with_key(dtype, [&]<class Keys>() -> OrderFn {
    return descending ? Order<Keys, true>::run : Order<Keys, false>::run;
  });
}

int64_t order_scratch(DType dtype, const OrderRow& row) {
  const auto entry = static_cast<int64_t>(size_of(dtype) <= 4 ? sizeof(Packed) : sizeof(Wide));
  switch (way_of(row)) {
    case Way::select:
    case Way::compare: return entry * row.length;
    case Way::digits: return entry * 2 * row.length;
    case Way::heap: return entry * (row.start + row.count);
    case Way::bins: break;
  }
  return entry * (row.length +
                  1);  // by_bins() writes every entry, also one that it does not keep, behind the kept ones
}

}  // namespace tenon::rows
