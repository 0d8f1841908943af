// What the plugin answers when MXNet cuts a graph, around the limits of MXNet's partitioner.
#pragma once

#include <string_view>
#include <vector>

#include "bindings/mxnet/symbol.h"

namespace tenon::plugin {

struct Strings {
  std::vector<std::string> keys, values;
};

// The part of each node, -1: none. Throws Failure if MXNet would connect the parts wrongly.
std::vector<int32_t> cut(std::string_view json, const Options& options);

// The attributes that the node of a cut subgraph gets, beyond those of node_attributes. Throws Failure if MXNet cannot pass its tensors.
Strings review(const Symbol& subgraph);

}  // namespace tenon::plugin
