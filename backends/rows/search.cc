// See search.h. An unsorted row gets the answer that binary search happens to find. NaN sorts behind every number, and a NaN
// value always goes to the end of the row.
#include "backends/rows/search.h"

#include "backends/rows/keys.h"

namespace tenon::rows {
namespace {

template <class Keys, bool kRight>
void search(const SearchRow& row, const void* sorted, const void* values, int64_t* result) {
  const auto* s = static_cast<const typename Keys::Stored*>(sorted);
  const auto* v = static_cast<const typename Keys::Stored*>(values);
  for (int64_t i = 0; i < row.values; ++i) {
    const auto value = Keys::of(v[i * row.value_stride]);
    int64_t low = 0, left = Keys::is_nan(value) ? 0 : row.length;
    if (left == 0) low = row.length;
    while (left > 0) {
      const int64_t half = left / 2;
      const auto key = Keys::of(s[(low + half) * row.stride]);
      const bool stays = !Keys::is_nan(key) && (kRight ? key > value : key >= value);
      low = stays ? low : low + half + 1;
      left = stays ? half : left - half - 1;
    }
    result[i * row.result_stride] = low;
  }
}

}  // namespace

SearchFn search_of(DType dtype, bool right) {
  return with_key(dtype,
                  [&]<class Keys>() -> SearchFn { return right ? search<Keys, true> : search<Keys, false>; });
}

}  // namespace tenon::rows
