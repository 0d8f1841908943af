// lowered: what back ends that run loops ask of a group's kernels, whatever they run on. Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "jit/lower/lower.h"
#include "src/ir/group.h"

namespace tenon::jit {

// Whether loops can run the node at all; whether a whole group fits one schedule is another question. unsupported: why not.
Status has_loops(const Graph& graph, ValueId v);

// Whether `members` are a group of one schedule at all, tried by lowering it while everything stored is taken to be dense.
// unsupported: why not. uses: of the graph.
Status covers(const Graph& graph, const Uses& uses, std::span<const ValueId> members,
              Target target = Target::cpu);

// Whether the node may join the group of `members`. unsupported: why not. uses: of the graph.
Status may_join(const Graph& graph, const Uses& uses, std::span<const ValueId> members, ValueId v,
                Target target = Target::cpu);

// Per kernel and buffer its position among a step's buffers, the group's inputs and then its outputs; -1: a temporary.
std::vector<std::vector<int>> positions(std::span<const LoweredKernel> kernels,
                                        std::span<const ValueId> inputs, std::span<const ValueId> outputs);

// (output, input) positions: the input may die into the output, since every kernel that touches it reads it only where it
// writes.
std::vector<std::pair<int, int>> inplace(std::span<const LoweredKernel> kernels,
                                         std::span<const ValueId> inputs, std::span<const ValueId> outputs);

}  // namespace tenon::jit
