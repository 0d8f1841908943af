// Convolutions to few channels and products to few columns. The library computes 16 of them at a time, so it wastes most of its work.
// Tested by tests/unit/backends/few_channels_test.cc.
#pragma once

#include "src/ir/builder.h"

namespace tenon::onednn {

// Whether `node` is a convolution by 1x1 windows to at most four channels in f32, as at the head of a net. Loops read the image once, in
// either layout, at the rate of the cache; the library takes 1.1 to 7 times as long.
bool is_pointwise_to_few(const Graph& graph, const Node& node);

// Whether `node` is a product in f32 whose result has two to five columns, with sums of at least 64 elements, or 512 for more than three
// columns, that are dense in both factors. The library computes 16 columns at a time: loops take 0.3 to 0.9 of its time.
bool is_product_to_few(const Graph& graph, const Node& node);

// Whether `node` is a transposed convolution to at most eight channels in f32: one group, windows and steps of constant sizes, and few
// windows over each element.
bool is_transposed_to_few(const Graph& graph, const Node& node);

// Rewrites a transposed convolution to few channels as one product and a sum of its blocks. A window of m * s elements with step s
// covers m blocks of s elements, so each block of the result is a sum of m blocks of the products of pixels by weights; of
// m1 * m2 * ... blocks with several spatial axes.
ValueId by_product(Builder& b, const Node& node);

}  // namespace tenon::onednn
