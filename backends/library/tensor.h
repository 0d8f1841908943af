// Tensor: an operand at concrete sizes: where it lies, its sizes and its strides; and the small questions that every problem asks
// of sizes. Tested by tests/unit/backends/library_test.cc.
#pragma once

#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/ops/rules/operand.h"

namespace tenon::library {

// Where an operand begins.
struct Place {
  int buffer = -1;     // position among the buffers of a step
  int64_t offset = 0;  // bytes
};

struct Tensor : Place {
  DType dtype = DType::f32;
  std::vector<int64_t> dims, strides;  // in elements

  int64_t count() const;  // of elements
  int64_t bytes() const { return count() * size_of(dtype); }
};

Tensor at_sizes(const Operand& operand, const Sizes& sizes);

// Dense row-major strides; with channels_last the second axis is innermost. An axis of size 0 counts as one of size 1.
std::vector<int64_t> plain_strides(const std::vector<int64_t>& dims, bool channels_last = false);
// "2x64x56x56".
std::string by(const std::vector<int64_t>& dims);
// Appends a number, or a list with its length, to the key of a problem.
void add_to_key(std::string& key, int64_t number);
void add_to_key(std::string& key, const std::vector<int64_t>& list);

}  // namespace tenon::library
