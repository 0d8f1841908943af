// The cuDNN back end: convolutions on NVIDIA GPUs, on the caller's stream. It never waits for the device and takes its workspace
// from the plan's. What follows a convolution, its bias included, is a kernel of loops. Without the library it bids for nothing.
// Tested by tests/unit/backends/cudnn_test.cc.
#pragma once

#include "src/runtime/backend.h"

namespace tenon {

Backend& cudnn_backend();

}  // namespace tenon
