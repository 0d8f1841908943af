// verify: whether a graph keeps the invariants of graph.h; the list is at the top of verify.cc. Passes are held to it
// between one another in debug builds. Tested by tests/unit/ir/ir_test.cc and tests/golden/ir/verify_*.tn.
#pragma once

#include <cstdint>
#include <span>

#include "src/ir/graph.h"

namespace tenon {

// Any graph comes in, however broken. The status (invalid) holds every violation, one per line, each naming its node.
Status verify(const Graph& graph);
// Whether two elements of a tensor may stand in one place. Never wrong where it says no; of layouts that interleave axes
// it says yes.
bool may_overlap(std::span<const int64_t> shape, std::span<const int64_t> strides);

}  // namespace tenon
