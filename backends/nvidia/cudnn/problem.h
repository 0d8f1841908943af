// Problem: a call of the library at concrete sizes, in the library's terms. Work: a problem and the places of its tensors; if a
// tensor has no elements, there is no call, only zeros to write or nothing. Tested by tests/unit/backends/cudnn_spec_test.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/nvidia/cudnn/operations.h"
#include "src/backend/backend.h"
#include "src/ops/rules/operand.h"

namespace tenon::cudnn {

class Problem {
 public:
  virtual ~Problem() = default;
  DType dtype = DType::f32;
  bool tf32 = false;  // TF32 is allowed

  virtual std::string key() const = 0;  // equal for problems that one plan serves; numbers() may differ
  virtual std::string text() const = 0;
  // Adds the operations. Adds tensors in memory first, operands before the result, then numbers.
  virtual Status describe(Operations& operations) const = 0;
  virtual std::vector<float> numbers() const { return {}; }
  // Whether engines on tensor cores are allowed: they compute with the bits of the dtype, or TF32 is allowed.
  bool tensor_cores() const { return dtype != DType::f32 || tf32; }
};

struct Work {
  static constexpr int kMost = 5;  // tensors
  struct Tensor {
    int buffer = -1;
    int64_t offset = 0;         // bytes
    std::vector<int64_t> dims;  // in the axis order of the operand
  };

  bool empty = false;  // the result has no elements, so nothing runs
  bool zeros = false;  // an empty sum: the result is zeros
  std::shared_ptr<const Problem> problem;
  std::vector<Tensor> tensors;  // the result is the last one
  int64_t result_bytes = 0;

  bool chooses() const { return !empty && !zeros; }
};

std::string by(const std::vector<int64_t>& dims);                     // "2x64x56x56"
void add_to_key(std::string& key, const std::vector<int64_t>& list);  // appends the bytes of the numbers

// Everything of a Work but its problem. The last operand is the result.
Work work_of(std::span<const Operand* const> operands, const Sizes& sizes);

}  // namespace tenon::cudnn
