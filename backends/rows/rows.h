// The back end for rows that compare elements: orders of rows and searches in sorted ones, compiled ahead of time. Operands are read
// where they lie, through strided views. Tested by tests/unit/backends/rows_test.cc.
#pragma once

#include "src/runtime/backend.h"

namespace tenon {

Backend& rows_backend();

}  // namespace tenon
