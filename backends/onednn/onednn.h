// The oneDNN back end: matmul, linear, convolution and average pooling with their epilogues, through the v3 API.
// Everything of the library stays in this room, its exceptions included. Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include "src/runtime/backend.h"

namespace tenon {

Backend& onednn_backend();

}  // namespace tenon
