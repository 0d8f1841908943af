// The cuBLASLt back end: runs products of matrices on NVIDIA GPUs, with scale, bias, one added tensor and activation as epilogue,
// on the caller's stream. It never waits for the device and takes its workspace from the plan. Without the library it bids for
// nothing. Tested by tests/unit/backends/cublaslt_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& cublaslt_backend();

}  // namespace tenon
