// hash: the identity of a graph for the program cache. Two graphs with the same nodes in the same order have
// the same hash, whatever the names of their values, symbols and origins. Tested by tests/unit/ir/ir_test.cc.
#pragma once

#include "src/base/hash.h"
#include "src/ir/graph.h"

namespace tenon {

// Covers the names of ops, operands, types, attributes with the bytes of constants, bindings with strides,
// symbols by order of use in the inputs and with their ranges, outputs, and groups with their back ends.
// Omits names, origins and the groups' reasons.
Hash128 hash(const Graph& graph);

}  // namespace tenon
