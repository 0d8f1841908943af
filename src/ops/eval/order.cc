// See src/ops/eval/kinds.h. The rows of order.def, which compare elements.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/ops/eval/kinds.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"

namespace tenon {
namespace {

// NaN is larger than any number.
bool less(const Element& a, const Element& b, bool is_real) {
  if (!is_real) return a.i < b.i;
  return std::isnan(b.d) ? !std::isnan(a.d) : a.d < b.d;
}

void eval_sort_order(const Node& node, const HostTensor& x, HostTensor& out) {
  const int axis = *normal_axis(attr_int(node, "axis"), x.rank());
  const bool descending = attr_as<bool>(node, "descending"), selects = attr_as<bool>(node, "select");
  const bool is_real = is_float(x.dtype);
  const int64_t start = attr_int(node, "start"), count = out.shape[axis], length = x.shape[axis];
  const std::vector<int64_t> from = dense_strides(x.shape), to = dense_strides(out.shape);
  std::vector<int64_t> rows = out.shape;
  rows[axis] = count == 0 ? 0 : 1;
  walk(rows, {from, to}, [&](const auto& at) {
    std::vector<int64_t> order(static_cast<size_t>(length));
    std::iota(order.begin(), order.end(), int64_t{0});
    const auto before = [&](int64_t i, int64_t j) {
      if (descending) std::swap(i, j);
      return less(x.get(at[0] + i * from[axis]), x.get(at[0] + j * from[axis]), is_real);
    };
    if (selects && count > length / 64)
      std::nth_element(order.begin(), order.begin() + count - 1, order.end(), before);
    else
      std::stable_sort(order.begin(), order.end(), before);
    for (int64_t k = 0; k < count; ++k)
      out.set(at[1] + k * to[axis], {0, order[static_cast<size_t>(start + k)]});
  });
}

// Unsorted input also has a defined answer, that of binary search, as in PyTorch and NumPy.
void eval_search(const Node& node, const HostTensor& sorted, const HostTensor& values, HostTensor& out) {
  const bool right = attr_as<bool>(node, "right"), is_real = is_float(sorted.dtype);
  const int64_t length = sorted.shape.back();
  const int64_t per_row = sorted.rank() == 1 ? values.count() : values.shape.back();
  for (int64_t i = 0; i < values.count(); ++i) {
    const int64_t row = sorted.rank() == 1 ? 0 : i / per_row * length;
    const Element v = values.get(i);
    int64_t low = 0, high = length;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const Element s = sorted.get(row + middle);
      const bool stays = is_real ? (right ? s.d > v.d : s.d >= v.d) : (right ? s.i > v.i : s.i >= v.i);
      (stays ? high : low) = stays ? middle : middle + 1;
    }
    out.set(i, {0, low});
  }
}

}  // namespace

Status eval_order(const Node& node, Operands in, HostTensor& out) {
  if (node.op == ops::sort_order)
    eval_sort_order(node, *in[0], out);
  else
    eval_search(node, *in[0], *in[1], out);
  return {};
}

}  // namespace tenon
