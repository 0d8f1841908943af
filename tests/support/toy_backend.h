// A back end to learn from: docs/howto/add-backend.md explains its functions one by one. It multiplies f32 matrices, and computes maps
// of one operand with the product. The library does not list it. Tested by tests/unit/backends/toy_backend_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& toy_backend();

}  // namespace tenon
