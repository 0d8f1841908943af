// The back end for sort_order and search. It runs C++ code that is compiled ahead of time and reads operands in place, through
// strided views. Tested by tests/unit/backends/rows_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& rows_backend();

}  // namespace tenon
