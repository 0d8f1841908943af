// scatter: scatter and index_put as two kernels. The first copies the operand. The second writes the updates
// one after another in the order of their indices (the last one wins, or all are added), in parallel over the
// other axes. The group's output is the scatter or a dense reshape of it. Tested by tests/golden/golden_test.cc and tests/unit/runtime/run_test.cc.
#pragma once

#include "jit/lower/lower.h"

namespace tenon::jit {

bool is_scatter(OpId op);
Result<LoweredKernel> lower_scatter(const LowerInput& input);

}  // namespace tenon::jit
