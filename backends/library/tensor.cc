// See tensor.h.
#include "backends/library/tensor.h"

#include <algorithm>

namespace tenon::library {

int64_t Tensor::count() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Tensor at_sizes(const Operand& o, const Sizes& sizes) {
  return {{o.buffer, sizes.eval(o.offset) * size_of(o.dtype)},
          o.dtype,
          sizes.eval(o.shape),
          sizes.eval(o.strides)};
}

std::vector<int64_t> plain_strides(const std::vector<int64_t>& dims, bool channels_last) {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t step = 1;
  auto take = [&](size_t i) {
    strides[i] = step;
    step *= std::max<int64_t>(dims[i], 1);
  };
  if (channels_last) take(1);
  for (size_t i = dims.size(); i-- > 0;)
    if (!channels_last || i != 1) take(i);
  return strides;
}

std::string by(const std::vector<int64_t>& dims) {
  std::string text;
  for (int64_t d : dims) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

void add_to_key(std::string& key, int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void add_to_key(std::string& key, const std::vector<int64_t>& list) {
  add_to_key(key, std::ssize(list));
  for (int64_t v : list) add_to_key(key, v);
}

}  // namespace tenon::library
