// cut: a kernel that needs more registers than a thread has, as two that run one after the other. The first does the statements
// before some place and leaves in temporaries what is read behind it; the second goes on from there. What is quickly made anew
// (constants, sizes, elements of inputs) is made anew instead. When a kernel is cut is backends/nvidia/kernels/forms.h's to decide.
// Tested by tests/unit/jit/kernel_fission_test.cc.
#pragma once

#include <optional>
#include <utility>

#include "jit/lower/lower.h"

namespace tenon::jit {

// Kernels of fewer statements, not counting what is quick, never run out of registers.
inline constexpr int kFewestToCut = 12;

// Cut where least crosses, each half having a quarter of the other statements at least: between statements of the par nest, or within
// one of its loops, which both halves then have. Nothing where no place is right.
std::optional<std::pair<LoweredKernel, LoweredKernel>> kernel_fission(const LoweredKernel& whole,
                                                                      DimTable& dims,
                                                                      int fewest = kFewestToCut);

}  // namespace tenon::jit
