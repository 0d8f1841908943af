// Problem: a convolution at concrete sizes, as cuDNN takes it: N, C, then two or three axes of space. Work: a recipe at sizes: a
// problem and where its tensors are, or what is left where one of them has no elements.
// Tested by tests/cudnn_recipe_test.cc.
#pragma once

#include <string>
#include <vector>

#include "backends/cudnn/recipe.h"
#include "src/runtime/backend.h"

namespace tenon::cudnn {

// y from x and w. A transposed one is the gradient, for its x, of the convolution that makes our x of our y.
struct Problem {
  DType dtype = DType::f32;
  bool tf32 = false, transposed = false, channels_last = false;
  std::vector<int64_t> x, w, y;  // dims
  std::vector<int64_t> low, high, strides, dilations;

  std::vector<int64_t> strides_of(
      const std::vector<int64_t>& dims) const;  // of a tensor of these dims, dense
  std::string key() const;                      // equal for problems that one plan serves
  std::string text() const;                     // "2x64x56x56 by 128x64x3x3 bf16, stride 2x2 pad 1x1"
};

struct Work {
  static constexpr int kTensors = 3;  // x, w, y

  bool empty = false;  // y has no elements: nothing to run
  bool zeros = false;  // a sum over nothing: y is zeros
  Problem problem;
  int buffers[kTensors] = {-1, -1, -1};
  int64_t offsets[kTensors] = {};  // bytes
  int64_t result_bytes = 0;
};

Work at_sizes(const Recipe& recipe, const Sizes& sizes);

}  // namespace tenon::cudnn
