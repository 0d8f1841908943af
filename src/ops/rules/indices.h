// Questions about the rows with indices: gather, take_along, scatter and index_put, whose operand 1 has positions along an
// axis of operand 0. Tested by tests/golden/jit/lower_cut_index.tn and tests/golden/passes/early_checks.tn.
#pragma once

#include <optional>

#include "src/ir/graph.h"

namespace tenon {

// The size of the axis that the indices of the node go into; nullopt: a row without indices.
std::optional<Dim> indexed_size(const Graph& graph, const Node& node);

// Whether the graph shows that all elements of `v` lie in [0, size), so that no kernel has to check them: a node cuts them to
// this range, min(max(x, low), high), as PyTorch does with the positions of pixels, or index_in has checked them. Looks
// through views and through casts that keep such numbers.
bool is_index_into(const Graph& graph, ValueId v, Dim size);

}  // namespace tenon
