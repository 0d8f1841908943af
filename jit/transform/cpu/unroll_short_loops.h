// unroll_short_loops: a loop of a few iterations within a loop across lanes becomes statements, if its iterations store or fold the
// elements between those of the lanes. The emitter then stores whole vectors, and loads that several loops share are made once. CPU only,
// because a warp joins neighbouring accesses itself.
// Tested by tests/unit/jit/transform/cpu/unroll_short_loops_test.cc and tests/golden/jit/lower_short_loops.tn.
#pragma once

#include "jit/kernel/kernel.h"
#include "src/ir/dim/dim.h"

namespace tenon::jit {

// sizes: the Dims of the size arguments. The iterations must be known.
Kernel unroll_short_loops(Kernel kernel, const Dims& sizes);

}  // namespace tenon::jit
