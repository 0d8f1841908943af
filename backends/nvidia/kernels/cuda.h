// The CUDA back end: runs groups as kernels of jit/cuda/emit_cuda.h. A plan compiles them for the schedule at its sizes; a run
// launches them on the caller's stream and never waits for the device. Tested by tests/unit/backends/cuda_program_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& cuda_backend();

}  // namespace tenon
