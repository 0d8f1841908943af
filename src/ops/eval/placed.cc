// See placed.h.
#include "src/ops/eval/placed.h"

#include <algorithm>

namespace tenon {

Result<Placed> Placed::make(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  constexpr int64_t kMost = int64_t{1} << 46;
  const bool empty = std::ranges::count(shape, 0) > 0;
  __int128 low = 0, high = 0;
  for (size_t a = 0; a < shape.size() && !empty; ++a) {
    const __int128 reach = static_cast<__int128>(strides[a]) * (shape[a] - 1);
    (reach < 0 ? low : high) += reach;
  }
  if (high - low >= kMost) return invalid("its strides reach farther than any memory");
  Placed placed{dtype, std::move(shape), std::move(strides), {}, static_cast<int64_t>(-low) * size_of(dtype)};
  placed.bytes.resize(static_cast<size_t>(high - low + 1) * static_cast<size_t>(size_of(dtype)));
  return placed;
}

void Placed::write(const HostTensor& from) {
  copy_strided(reinterpret_cast<const char*>(from.bytes.data()), dense_strides(shape),
               reinterpret_cast<char*>(data()), strides, shape, size_of(dtype));
}

void Placed::read(HostTensor& to) const {
  copy_strided(reinterpret_cast<const char*>(data()), strides, reinterpret_cast<char*>(to.bytes.data()),
               dense_strides(shape), shape, size_of(dtype));
}

}  // namespace tenon
