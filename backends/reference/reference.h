// The reference back end: runs any node that the evaluator knows, element by element. Programs use it only if they name it; tests
// compare the other back ends with it. It copies its tensors and allocates on every run.
// Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& reference_backend();

}  // namespace tenon
