// Problem: an operation of the library at concrete sizes, in the library's terms.
// Tested by tests/unit/backends/cudnn_spec_test.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/library/tensor.h"
#include "backends/nvidia/cudnn/operations.h"

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

// A problem and the places of its tensors. If a tensor has no elements, there is no call, only zeros to write or nothing.
struct PlacedProblem {
  bool empty = false;  // the result has no elements, so nothing runs
  bool zeros = false;  // an empty sum: the result is zeros
  std::shared_ptr<const Problem> problem;
  std::vector<library::Tensor> tensors;  // in the axis order of the operands; the result is the last one

  bool chooses() const { return !empty && !zeros; }
};
// Everything but the problem. The last operand is the result.
PlacedProblem placed(std::span<const Operand* const> operands, const Sizes& sizes);

}  // namespace tenon::cudnn
