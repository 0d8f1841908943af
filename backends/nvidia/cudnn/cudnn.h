// The cuDNN back end: runs convolutions and attention on NVIDIA GPUs, on the caller's stream. It never waits for the device and
// takes its workspace from the plan. Nodes that follow, and the bias of a convolution, run as loops. Without the library it bids
// for nothing.
// Tested by tests/unit/backends/cudnn_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& cudnn_backend();

}  // namespace tenon
