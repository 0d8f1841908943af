// The maps that a call of the library gets wrong for infinities (redone() of spec.h), taken here of what the call without them
// left. The arrays are results of calls: floats of 16 or 32 bits, no two elements in one place.
// Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include "backends/onednn/problem.h"
#include "src/ir/op.h"

namespace tenon::onednn {

// Whether some element is NaN. `data` is where the array's buffer begins.
bool has_nan(const Array& array, const void* data, Parallel& parallel);
// relu or gelu (by erf) in place; NaN stays.
void exact_map(OpId map, const Array& array, void* data);

}  // namespace tenon::onednn
