// Placed: a tensor in its own memory whose elements lie at given strides, as a binding of a graph declares
// them. Strides may be 0 or negative. Tested by tests/unit/runtime/difference_test.cc and tests/cli_test.py.
#pragma once

#include "src/ops/eval/host_tensor.h"

namespace tenon {

struct Placed {
  DType dtype = DType::f32;
  std::vector<int64_t> shape, strides;  // in elements
  std::vector<std::byte> bytes;
  int64_t offset = 0;  // in bytes, of the element at index 0

  // The bytes are zero. Fails with invalid if the strides reach farther than any memory.
  static Result<Placed> make(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides);
  std::byte* data() { return bytes.data() + offset; }
  const std::byte* data() const { return bytes.data() + offset; }
  // Copies all elements of a tensor of this dtype and shape into the memory, or out of it.
  void write(const HostTensor& from);
  void read(HostTensor& to) const;
};

}  // namespace tenon
