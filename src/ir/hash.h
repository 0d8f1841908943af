// hash: the identity of a graph for the program cache. Two graphs with the same nodes in the same order hash alike
// whatever their values, symbols and origins are called. Tested by tests/unit/ir/ir_test.cc.
#pragma once

#include "src/base/hash.h"
#include "src/ir/graph.h"

namespace tenon {

// Covers ops by name, operands, types, attributes with the bytes of constants, bindings with strides, symbols by order of
// use in the inputs with their ranges, outputs, and groups with their back ends. Leaves out names, origins and groups' reasons.
Hash128 hash(const Graph& graph);

}  // namespace tenon
