// A convolution at concrete sizes: N, C, then two or three axes of space. Tested by tests/unit/backends/cudnn_spec_test.cc.
#pragma once

#include "backends/nvidia/cudnn/problem.h"
#include "backends/nvidia/cudnn/spec.h"

namespace tenon::cudnn {

// y from x and w. A transposed one is the gradient, for its x, of the convolution that makes our x of our y.
struct ConvolutionProblem final : Problem {
  bool transposed = false, channels_last = false;
  std::vector<int64_t> x, w, y;  // dims
  std::vector<int64_t> low, high, strides, dilations;

  std::vector<int64_t> strides_of(
      const std::vector<int64_t>& dims) const;  // of a tensor of these dims, dense
  std::string key() const override;
  // "2x64x56x56 by 128x64x3x3 bf16, stride 2x2 pad 1x1"
  std::string text() const override;
  Status describe(Operations& operations) const override;
};

Work at_sizes(const Spec& spec, const Sizes& sizes);

}  // namespace tenon::cudnn
