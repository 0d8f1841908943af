// A convolution at concrete sizes: N, C, then two or three spatial axes. Tested by tests/unit/backends/cudnn_spec_test.cc.
#pragma once

#include "backends/nvidia/cudnn/problem.h"
#include "backends/nvidia/cudnn/spec.h"

namespace tenon::cudnn {

// Computes y from x and w. A transposed convolution is the gradient with respect to the input of the convolution that computes x
// from y.
struct ConvolutionProblem final : Problem {
  bool transposed = false, channels_last = false;
  std::vector<int64_t> x, w, y;  // dims
  std::vector<int64_t> low, high, strides, dilations;

  std::vector<int64_t> strides_of(
      const std::vector<int64_t>& dims) const;  // dense strides of a tensor of these dims, in this layout
  std::string key() const override;
  // "2x64x56x56 by 128x64x3x3 bf16, stride 2x2 pad 1x1"
  std::string text() const override;
  Status describe(Operations& operations) const override;
};

Work at_sizes(const Spec& spec, const Sizes& sizes);

}  // namespace tenon::cudnn
