// Epilogue: the maps behind an operation of a library, which join its group one by one, and the search for an operation in front of
// an activation that a library computes only as an epilogue. Tested by tests/unit/backends/library_test.cc.
#pragma once

#include <optional>
#include <span>

#include "src/base/function_ref.h"
#include "src/ir/graph.h"

namespace tenon::library {

// The operand of a map of two operands that is not the value of the group so far.
struct OtherOperand {
  ValueId value = kNoValue;
  bool second = true;            // it is the second operand of the map
  std::optional<double> number;  // all its elements, if they are one number
};
// before: the value of the group so far, which `map` reads. unsupported: it reads the value twice, or is no map of two operands;
// then the sentence is the name of its row and `is_none`, " is no epilogue of cuBLASLt" for example.
Result<OtherOperand> other_operand(const Graph& graph, ValueId before, const Node& map, const char* is_none);

// Which chains of nodes a library may compute in one call.
struct Chains {
  bool (*is_root)(const Node&);    // a chain begins with such a node
  bool (*continues)(const Node&);  // such nodes may stand between it and the last one
  size_t longest;                  // nodes behind the root
};
// Calls visit(members) for every chain that ends in `last`; the value of each of its other nodes is read once. Stops when visit
// returns true.
void each_chain(const Graph& graph, ValueId last, const Chains& chains,
                FunctionRef<bool(std::span<const ValueId>)> visit);

}  // namespace tenon::library
