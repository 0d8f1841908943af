// Computes the maps that the library gets wrong for infinities (redone() of spec.h) on the result of a call without them.
// The arrays hold floats of 16 or 32 bits, and no two elements overlap.
// Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include "backends/onednn/problem.h"
#include "src/ir/op.h"

namespace tenon::onednn {

// Whether some element of the library's result is NaN, or the -1 that its clip makes of NaN. `data` is the beginning of the array's
// buffer.
bool has_failed(const Redone& map, const Array& array, const void* data, Parallel& parallel, int threads);
// Applies the map in place; NaN stays NaN.
void exact_map(const Redone& map, const Array& array, void* data);

}  // namespace tenon::onednn
