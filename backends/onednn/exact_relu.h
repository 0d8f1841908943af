// Exact relu where the library has none: its own loses NaN, and what stands for it (recipe.h) makes NaN of minus infinity too. A call
// that ends in relu and has made NaN is therefore run again without, and relu is taken here. The arrays are results of calls:
// floats of 16 or 32 bits, no two elements in one place. Tested by tests/onednn_test.cc.
#pragma once

#include "backends/onednn/problem.h"

namespace tenon::onednn {

// Whether some element is NaN. `data` is where the array's buffer begins.
bool has_nan(const Array& array, const void* data, Parallel& parallel);
// In place; NaN stays.
void exact_relu(const Array& array, void* data);

}  // namespace tenon::onednn
