// updates: outputs that replace inputs. The value of such an output is written into the memory of its input, by
// the group that computes it, if no other read of the input is left by then and no step can fail any more.
// Otherwise the value is an intermediate, and copies run after all other steps. Tested by
// tests/unit/runtime/update_test.cc.
#pragma once

#include <set>

#include "src/ir/graph.h"
#include "src/runtime/plan/plan.h"

namespace tenon {

// Positions of outputs.
using OutputSet = std::set<size_t>;

// Renumbers the groups: a group that computes an update runs after all other groups that read the updated input
// and, where possible, after all groups that may find a fault, which run first if inputs are donated; apart from this, the order is
// GroupOrder's. copied: updates that are intermediates. Returns the other updates for which there is no such order. graph: with groups.
OutputSet order_groups(Graph& graph, const OutputSet& copied);

// The updates, apart from `copied`, that an executable of `source` cannot write in place. Asks the steps behind the others to take
// ahead what they may need (Executable::take_ahead).
OutputSet not_in_place(const PlanSource& source, const OutputSet& copied);

// The graph that copies these updates: one input per output, which it returns with the strides of the output.
Graph copies_of(const Graph& graph, const OutputSet& outputs);

}  // namespace tenon
