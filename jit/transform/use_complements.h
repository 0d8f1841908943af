// use_complements: 1 + erf(z) becomes erfc(-z), and 1 + tanh(z) twice the sigmoid of 2z. They keep their digits where the sum would
// cancel, and cost less. The functions that nobody reads any more are the compiler's to drop. For approximate functions on GPUs.
// Tested by tests/unit/jit/emit_cuda_functions_test.cc.
#pragma once

#include "jit/kernel/kernel.h"

namespace tenon::jit {

Kernel use_complements(Kernel kernel);

}  // namespace tenon::jit
