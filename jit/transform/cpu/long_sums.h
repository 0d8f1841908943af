// long_sums: long sums of f32 become sums of parts, which are added up in f64. The error of a chain of additions grows with its length,
// and a sum whose result another loop of the same kernel reads is not split into two kernels (split_reduction.h). For CPUs. Tested by
// tests/golden/jit/lower_long_sums.tn and tests/torch/test_long_sums.py.
#pragma once

#include "jit/lower/lower.h"

namespace tenon::jit {

LoweredKernel long_sums(LoweredKernel kernel, DimTable& dims);

}  // namespace tenon::jit
