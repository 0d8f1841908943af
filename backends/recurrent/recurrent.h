// The back end `recurrent` runs the rows `recurrent` and `recurrent_gradient` (gradient.h) in f32. A step of the sequence is one parallel region: each thread owns some of
// the units, multiplies the last hidden states by the columns of their gates, and computes their next states.
// Tested by tests/unit/backends/recurrent_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& recurrent_backend();

}  // namespace tenon
