// report: lists the GPUs, the driver and NVIDIA's libraries that are found, for people. Opens every library but makes no context.
// Any thread.
// Tested by tests/unit/backends/cuda_driver_test.cc and tests/cli_test.py.
#pragma once

#include "src/backend/backend.h"

namespace tenon::cuda {

std::vector<ReportLine> report();

}  // namespace tenon::cuda
