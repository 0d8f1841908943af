// The oneDNN back end: runs matmul, linear, convolution and average pooling with their epilogues, through the v3 API.
// No type and no exception of the library leaves this directory. Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& onednn_backend();

}  // namespace tenon
