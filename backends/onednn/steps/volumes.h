// Depthwise convolutions of f32 volumes whose channels are last, which inner::Depthwise computes. The library takes 5 to 17 times as long.
// Tested by tests/unit/backends/depthwise_test.cc.
#pragma once

#include <memory>
#include <optional>

#include "backends/inner/depthwise.h"
#include "backends/library/tensor.h"
#include "backends/onednn/problem.h"

namespace tenon::onednn {

struct DepthwiseVolumes {
  inner::VolumeShape shape;
  library::Place in, windows, out;
  std::optional<library::Place> bias;
};

// Whether the node is such a convolution of any dtype. Its step has no epilogue.
bool is_depthwise_of_volumes(const Graph& graph, const Node& node);
// Nothing if the problem is none of these, or has an epilogue.
std::optional<DepthwiseVolumes> depthwise_volumes(const Problem& asked);
std::unique_ptr<Step> depthwise_step(const DepthwiseVolumes& problem, int threads);

}  // namespace tenon::onednn
