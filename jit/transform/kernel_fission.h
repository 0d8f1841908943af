// kernel_fission: splits a kernel that needs more registers than a thread has into two that run one after the
// other. The first runs the statements before some place and stores in temporaries what the rest reads; the
// second goes on from there. Values that are cheap to compute again (constants, sizes, elements of inputs)
// are computed again instead. backends/nvidia/kernels/forms.h decides when a kernel is split. Tested by
// tests/unit/jit/transform/kernel_fission_test.cc.
#pragma once

#include <optional>
#include <utility>

#include "jit/lower/lower.h"

namespace tenon::jit {

// Kernels of fewer statements, without the cheap ones, never run out of registers.
inline constexpr int kFewestToCut = 12;

// Splits where the fewest bytes cross, and so that each half has at least a quarter of the statements that
// are not cheap. The place is between statements of the par nest, or within one of its loops, which both
// halves then have. Nothing if no place is legal.
std::optional<std::pair<LoweredKernel, LoweredKernel>> kernel_fission(const LoweredKernel& whole,
                                                                      DimTable& dims,
                                                                      int fewest = kFewestToCut);

// Splits before this statement of the par nest, if that is legal.
std::optional<std::pair<LoweredKernel, LoweredKernel>> cut_before(const LoweredKernel& whole, DimTable& dims,
                                                                  size_t statement);

}  // namespace tenon::jit
