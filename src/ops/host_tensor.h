// HostTensor: dense row-major elements in host memory, owned; what the evaluator computes on. Elements are
// read and written through Element, which holds a float as a double and anything else as an int64;
// conversions are those of src/base/convert.h. Tested by tests/unit/ops/eval_test.cc.
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
  // All bytes zero. Whoever calls has checked that the size fits into memory; see element_bytes.
  HostTensor(DType dtype, std::vector<int64_t> shape);

  int rank() const { return static_cast<int>(shape.size()); }
  int64_t count() const;  // of elements
  Element get(int64_t index) const;
  // A float is rounded once (to a 16-bit float through f32), an integer keeps its low bits, a bool its
  // lowest.
  void set(int64_t index, Element value);
  double number(int64_t index) const;            // get, of any dtype, as a double
  void set_number(int64_t index, double value);  // as cast from f64 does
};

// Row-major strides in elements.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);
// Bytes of a tensor, or nullopt when they exceed 2^46 (64 TiB; beyond any host's memory).
std::optional<int64_t> element_bytes(DType dtype, const std::vector<int64_t>& shape);
// The value in another dtype, as the row cast defines it.
Element convert_element(Element value, DType from, DType to);
Element element_of(const Scalar& literal, DType dtype);

// Element by element of `item` bytes, strides in elements; without an allocation. At most kMaxRank + 2 axes.
void copy_strided(const char* from, const std::vector<int64_t>& from_strides, char* to,
                  const std::vector<int64_t>& to_strides, const std::vector<int64_t>& shape, int64_t item);

// Walks all indices of `shape` in row-major order and calls f(offsets), offsets[k] = sum of index times
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
