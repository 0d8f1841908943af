// join_pieces: maps over the same loops become one kernel if they read common elements. Lowering makes a kernel for
// each piece of a concatenation, so both halves of a rotary embedding would read the whole input.
// CPU only. Tested by tests/unit/jit/transform/cpu/join_pieces_test.cc and tests/golden/jit/lower_rotary.tn.
#pragma once

#include <vector>

#include "jit/lower/lower.h"

namespace tenon::jit {

// The kernels of a group, in order. A kernel joins the one before it or none.
std::vector<LoweredKernel> join_pieces(std::vector<LoweredKernel> kernels);

}  // namespace tenon::jit
