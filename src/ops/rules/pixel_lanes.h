// Which convolutions loops compute faster than a library: those of few channels. Loops put neighbouring pixels in lanes; a library puts
// channels there, 8 or 16 at a time. Tested by tests/unit/ops/pixel_lanes_test.cc.
#pragma once

#include "src/ir/graph.h"

namespace tenon {

// Whether `node` is such a convolution, by its sizes and layout.
bool suits_pixel_lanes(const Graph& graph, const Node& node);

}  // namespace tenon
