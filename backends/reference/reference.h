// The reference back end: any node with a meaning, evaluated element by element. It takes what nobody else takes and is
// what the others are measured against; it copies its tensors and allocates on every run. Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include "src/runtime/backend.h"

namespace tenon {

Backend& reference_backend();

}  // namespace tenon
