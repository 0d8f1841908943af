// HostTensor: a tensor that owns its dense row-major elements in host memory; the evaluator computes on it.
// Elements are read and written as Element, which holds a float as a double and anything else as an int64.
// Conversions are those of src/base/convert.h. Tested by tests/unit/ops/eval_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/ir/graph.h"

namespace tenon {

// One element: `d` for a float dtype, `i` for integers and bool (0 or 1).
struct Element {
  double d = 0;
  int64_t i = 0;
};

struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  // All bytes are zero. The caller has checked that the size fits in memory; see element_bytes.
  HostTensor(DType dtype, std::vector<int64_t> shape);

  int rank() const { return static_cast<int>(shape.size()); }
  int64_t count() const;  // number of elements
  Element get(int64_t index) const;
  // Rounds a float once (to a 16-bit float through f32), keeps the low bits of an integer and the lowest bit
  // of a bool.
  void set(int64_t index, Element value);
  double number(int64_t index) const;            // get() as a double, for any dtype
  void set_number(int64_t index, double value);  // converts as a cast from f64 does
};

// Row-major strides in elements.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);
// The bytes of a tensor, or nullopt if they exceed 2^46 (64 TiB, beyond any host's memory).
std::optional<int64_t> element_bytes(DType dtype, const std::vector<int64_t>& shape);
// The value in another dtype, as the row `cast` defines it.
Element convert_element(Element value, DType from, DType to);
Element element_of(const Scalar& literal, DType dtype);

// Copies elements of `item` bytes, 1, 2, 4 or 8; strides are in elements. Does not allocate. At most kMaxRank + 2 axes.
void copy_strided(const char* from, const std::vector<int64_t>& from_strides, char* to,
                  const std::vector<int64_t>& to_strides, const std::vector<int64_t>& shape, int64_t item);

// Visits all indices of `shape` in row-major order and calls f(offsets) with offsets[k] = sum of index times
// strides[k].
template <class F>
void walk(const std::vector<int64_t>& shape, const std::vector<std::vector<int64_t>>& strides, F f) {
  const int rank = static_cast<int>(shape.size());
  for (int64_t size : shape)
    if (size == 0) return;
  std::vector<int64_t> index(rank), offset(strides.size());
  while (true) {
    f(offset);
    int axis = rank - 1;
    for (; axis >= 0; --axis) {
      for (size_t k = 0; k < strides.size(); ++k) offset[k] += strides[k][axis];
      if (++index[axis] < shape[axis]) break;
      for (size_t k = 0; k < strides.size(); ++k) offset[k] -= strides[k][axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace tenon
