// The CUDA back end: groups as kernels of emit_cuda, compiled for the sizes' schedule, launched on the caller's stream. It never
// waits for the device. Tested by tests/unit/backends/cuda_program_test.cc.
#pragma once

#include "src/runtime/backend.h"

namespace tenon {

Backend& cuda_backend();

}  // namespace tenon
