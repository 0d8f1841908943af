// use_complements: 1 + erf(z) becomes erfc(-z), and 1 + tanh(z) becomes twice the sigmoid of 2z. The new
// functions keep their digits where the sum would cancel, and cost less. The compiler drops functions that
// are no longer read. For approximate functions on GPUs. Tested by
// tests/unit/jit/cuda/emit_cuda_functions_test.cc.
#pragma once

#include "jit/kernel/kernel.h"

namespace tenon::jit {

Kernel use_complements(Kernel kernel);

}  // namespace tenon::jit
