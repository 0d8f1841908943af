// stores_in_folds: a function of elements that a loop along columns stores, and that a reduction along the same columns folds, is
// stored by the reduction. So silu of an image and its mean are one walk that computes silu once. CPU only; rows keep such values in
// locals instead (jit/lower/rematerialization.h). Tested by tests/unit/jit/transform/cpu/stores_in_folds_test.cc and
// tests/golden/jit/lower_stores_in_folds.tn.
#pragma once

#include "jit/lower/lower.h"

namespace tenon::jit {

LoweredKernel stores_in_folds(LoweredKernel kernel);

}  // namespace tenon::jit
