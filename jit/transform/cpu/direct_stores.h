// direct_stores: a row that goes through a local to an output is written to the output where it is computed. Lowering keeps an
// expensive row in a local for the loops behind it; if they only copy it, neither the local nor the copy is needed.
// CPU only. Tested by tests/unit/jit/transform/cpu/direct_stores_test.cc and tests/golden/jit/lower_exponentials.tn.
#pragma once

#include "jit/lower/lower.h"

namespace tenon::jit {

LoweredKernel direct_stores(LoweredKernel kernel);

}  // namespace tenon::jit
