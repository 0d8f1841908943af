// Gradients of the weights of depthwise convolutions that inner::DepthwiseGradient computes, where the library takes 4 to 20 times as long:
// windows longer than 3 along an axis, or dilated, of images whose channels are last, in f32 and bf16. Tested by tests/unit/backends/depthwise_gradient_test.cc.
#pragma once

#include <memory>
#include <optional>

#include "backends/inner/depthwise_gradient.h"
#include "backends/library/tensor.h"
#include "backends/onednn/problem.h"

namespace tenon::onednn {

struct DepthwiseWindows {
  inner::DepthwiseShape shape;
  library::Place in, out_gradient, windows;
};

// Nothing if the problem is none of these.
std::optional<DepthwiseWindows> depthwise_windows(const Problem& asked);
std::unique_ptr<Step> depthwise_step(const DepthwiseWindows& problem, int threads);

}  // namespace tenon::onednn
