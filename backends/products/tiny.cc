// See tiny.h.
#include "backends/products/tiny.h"

#include <algorithm>

#include "backends/inner/tiny_products.h"

namespace tenon::products {
namespace {

// Elements that are read and written, below which a thread costs more than it saves.
constexpr int64_t kElementsPerThread = 1 << 16;

// The matrices of an operand, from this element on; `next` is their distance.
template <class T>
inner::TinyMatrices<T> matrices_of(const PlacedOperand& o, void* const* buffers, int64_t from, int64_t next) {
  const size_t rank = o.shape.size();
  return {static_cast<T*>(buffers[o.buffer]) + o.offset + from, o.strides[rank - 2], o.strides[rank - 1],
          next};
}

}  // namespace

struct TinyBatchStep::Run {
  const TinyBatchStep* step;
  void* const* buffers;
};

void TinyBatchStep::plan(int most_threads) {
  const size_t leading = y.shape.size() - 2;
  const auto stride = [&](const PlacedOperand& o, size_t axis) {
    const size_t missing = y.shape.size() - o.shape.size();
    return axis < missing || o.shape[axis - missing] == 1 ? 0 : o.strides[axis - missing];
  };
  for (size_t i = leading; i-- > 0;) {  // neighbours become one axis if they are walked like one
    const Axis axis = {y.shape[i], stride(a, i), stride(b, i), stride(y, i)};
    count_ *= axis.size;
    if (axis.size == 1) continue;
    Axis& within = outer_.empty() ? inner_ : outer_.front();
    if (within.size == 1)
      within = axis;
    else if (axis.a == within.size * within.a && axis.b == within.size * within.b &&
             axis.y == within.size * within.y)
      within.size *= axis.size;
    else
      outer_.insert(outer_.begin(), axis);
  }
  const int64_t rows = y.shape[leading], columns = y.shape[leading + 1], depth = a.shape.back();
  const int64_t elements = count_ * (rows * depth + depth * columns + rows * columns);
  threads_ = static_cast<int>(std::clamp<int64_t>(elements / kElementsPerThread, 1, most_threads));
}

template <class T>
void TinyBatchStep::compute(const Run& run, int64_t begin, int64_t end) const {
  const int64_t rows = y.shape[y.shape.size() - 2];
  for (int64_t first = begin, count; first < end; first += count) {
    const int64_t at = first % inner_.size;
    count = std::min(end - first, inner_.size - at);
    int64_t a_from = at * inner_.a, b_from = at * inner_.b, y_from = at * inner_.y;
    int64_t rest = first / inner_.size;
    for (size_t i = outer_.size(); i-- > 0; rest /= outer_[i].size) {
      const int64_t index = rest % outer_[i].size;
      a_from += index * outer_[i].a;
      b_from += index * outer_[i].b;
      y_from += index * outer_[i].y;
    }
    inner::multiply(inner::TinyProducts<T>{matrices_of<const T>(a, run.buffers, a_from, inner_.a),
                                           matrices_of<const T>(b, run.buffers, b_from, inner_.b),
                                           matrices_of<T>(y, run.buffers, y_from, inner_.y), count, rows,
                                           a.shape.back(), y.shape.back()});
  }
}

Status TinyBatchStep::run(void* const* buffers, char*, const RunOn& on) const {
  if (count_ == 0) return {};
  Run run{this, buffers};
  on.parallel.run(
      count_, threads_,
      [](void* arg, int, int64_t begin, int64_t end) {
        const auto& r = *static_cast<const Run*>(arg);
        if (r.step->dtype == DType::f64)
          r.step->compute<double>(r, begin, end);
        else
          r.step->compute<float>(r, begin, end);
      },
      &run);
  return {};
}

}  // namespace tenon::products
