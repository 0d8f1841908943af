// What of a GPU's software and hardware is there, for people. Opens every library, makes no context. Any thread.
// Tested by tests/unit/backends/cuda_driver_test.cc and tests/cli_test.py.
#pragma once

#include "src/runtime/backend.h"

namespace tenon::cuda {

std::vector<ReportLine> report();

}  // namespace tenon::cuda
