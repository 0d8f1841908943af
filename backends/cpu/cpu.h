// The CPU back end: runs maps, reductions, scans and moves as compiled loops. Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& cpu_backend();

}  // namespace tenon
