// verify: checks the invariants of graph.h; the list is at the top of verify.cc. Debug builds run it after
// every pass. Tested by tests/unit/ir/ir_test.cc and tests/golden/ir/verify_*.tn.
#pragma once

#include <cstdint>
#include <span>

#include "src/ir/graph.h"

namespace tenon {

// Accepts any graph, however broken. The status (invalid) lists every violation, one per line, each with its
// node.
Status verify(const Graph& graph);
// Whether two elements of a tensor may share a location. "No" is always right; for layouts that interleave
// axes the answer is always "yes".
bool may_overlap(std::span<const int64_t> shape, std::span<const int64_t> strides);

}  // namespace tenon
