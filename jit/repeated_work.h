// repeated_work: whether the loops of a group compute values again that it takes less time to store once.
// Tested by tests/golden/passes/fuse_repeated_*.tn, fuse_index_math.tn, fuse_table.tn, fuse_axis_places.tn and
// fuse_passes_over_gathers.tn.
#pragma once

#include <span>

#include "jit/lower/lower.h"
#include "src/ir/group.h"

namespace tenon::jit {

// A group of several nodes, lowered as a trial for the CPU.
struct TrialGroup {
  const Graph& graph;
  const Uses& uses;
  std::span<const ValueId> members, outputs;
  std::span<const LoweredKernel> kernels;
  bool pieces;  // whether there is a kernel for each piece of a concatenation
};

// Why the group should be cut; null if its loops compute every value once, or few cheap ones again.
const char* repeated_work(const TrialGroup& group);

}  // namespace tenon::jit
