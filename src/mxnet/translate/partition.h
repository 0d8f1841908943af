// partition: groups the nodes that Tenon translates into parts that may each run as one node. Tested by
// tests/unit/mxnet/translate/partition_test.cc.
#pragma once

#include "src/mxnet/translate/translate.h"

namespace tenon::mxnet {

// One number per node: its part, 0, 1, ... in order of the first node, or -1 for variables, for nodes that Tenon does not
// translate, and for parts of fewer than options.min_nodes nodes. The nodes of a part are connected. Parts are convex
// together: if each becomes one node, the graph has no cycle. Takes time linear in the symbol's size.
std::vector<int32_t> partition(const Symbol& symbol, const Options& options);

}  // namespace tenon::mxnet
