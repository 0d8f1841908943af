// Transposed convolutions to few channels, as one product and a sum of shifted results. The library computes 16 channels at a time,
// so it wastes most of its work on one to eight channels. Tested by tests/unit/backends/few_channels_test.cc.
#pragma once

#include "src/ir/builder.h"

namespace tenon::onednn {

// Whether `node` is such a convolution in f32: one group, windows and steps of constant sizes, and few windows over each element.
bool is_transposed_to_few(const Graph& graph, const Node& node);

// Rewrites it. A window of m * s elements with step s covers m blocks of s elements, so each block of the result is a sum of m blocks
// of the products of pixels by weights; of m1 * m2 * ... blocks with several spatial axes.
ValueId by_product(Builder& b, const Node& node);

}  // namespace tenon::onednn
