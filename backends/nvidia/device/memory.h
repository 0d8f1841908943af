// The DeviceRuntime of a GPU: memory, the state of streams, and recordings. Tested by tests/unit/backends/cuda_program_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon::cuda {

// The runtime of a device, kept for the life of the process. environment, unsupported: why the device cannot be used.
Result<DeviceRuntime*> runtime_of(int ordinal);

}  // namespace tenon::cuda
