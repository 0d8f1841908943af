// What programs need of a device beside their steps: memory, and what a stream allows. Tested by tests/unit/backends/cuda_program_test.cc.
#pragma once

#include "src/runtime/backend.h"

namespace tenon::cuda {

// Kept for the life of the process. environment, unsupported: why the device cannot be used.
Result<DeviceRuntime*> runtime_of(int ordinal);

}  // namespace tenon::cuda
