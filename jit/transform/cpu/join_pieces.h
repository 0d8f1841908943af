// join_pieces: maps over the same loops become one kernel if they read common elements, or if the lanes of one store the elements that
// those of the other leave out. Lowering makes a kernel for each piece of a concatenation, so both halves of a rotary embedding would
// read the whole input, and each part of a stack along the last axis would write to every line of the output.
// CPU only. Tested by tests/unit/jit/transform/cpu/join_pieces_test.cc and tests/golden/jit/lower_rotary.tn.
#pragma once

#include <vector>

#include "jit/lower/lower.h"

namespace tenon::jit {

// The kernels of a group, in order. A kernel joins the one before it or none.
std::vector<LoweredKernel> join_pieces(std::vector<LoweredKernel> kernels);

}  // namespace tenon::jit
