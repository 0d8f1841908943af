// Problem: a call of the library at concrete sizes, as the library takes it. Work: a call at sizes: its problem and where its
// tensors are, or what is left where one of them has no elements. Tested by tests/unit/backends/cudnn_spec_test.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/nvidia/cudnn/operations.h"
#include "src/ops/operand.h"
#include "src/runtime/backend.h"

namespace tenon::cudnn {

class Problem {
 public:
  virtual ~Problem() = default;
  DType dtype = DType::f32;
  bool tf32 = false;  // may be used

  virtual std::string key() const = 0;  // equal for problems that one plan serves, whatever their numbers
  virtual std::string text() const = 0;
  // The operations. Tensors in memory come first, the operands before the result, then numbers.
  virtual Status describe(Operations& operations) const = 0;
  virtual std::vector<float> numbers() const { return {}; }
  // Whether engines that use tensor cores compute in the dtype's bits, or may do otherwise.
  bool tensor_cores() const { return dtype != DType::f32 || tf32; }
};

struct Work {
  static constexpr int kMost = 5;  // tensors
  struct Tensor {
    int buffer = -1;
    int64_t offset = 0;         // bytes
    std::vector<int64_t> dims;  // as the operand has them
  };

  bool empty = false;  // the result has no elements: nothing to run
  bool zeros = false;  // a sum over nothing: the result is zeros
  std::shared_ptr<const Problem> problem;
  std::vector<Tensor> tensors;  // the result is the last one
  int64_t result_bytes = 0;

  bool chooses() const { return !empty && !zeros; }
};

std::string by(const std::vector<int64_t>& dims);                     // "2x64x56x56"
void add_to_key(std::string& key, const std::vector<int64_t>& list);  // their bytes

// Where the tensors are, and whether there is nothing in one of them.
Work work_of(std::span<const Operand* const> operands, const Sizes& sizes);

}  // namespace tenon::cudnn
