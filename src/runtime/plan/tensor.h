// Tensor: an argument of a call.
#pragma once

#include <cstdint>
#include <span>

#include "src/backend/backend.h"
#include "src/ir/dtype.h"

namespace tenon {

// A tensor of the host, borrowed for the call. Strides are in elements; empty: dense row-major.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::span<const int64_t> shape;
  std::span<const int64_t> strides;
  DeviceId device = {};
};

}  // namespace tenon
