// Descriptions of GPUs for schedules, by name. Used by cuda_schedule_test.cc and golden_test.cc.
#pragma once

#include <string>
#include <string_view>

#include "jit/schedule/cuda_schedule.h"
#include "src/base/status.h"

namespace tenon::jit {

// The values are those that the driver reports (backends/nvidia/device/device.cc).
inline CudaDevice cuda_device(std::string_view name) {
  CudaDevice d;
  d.name = name;
  if (name == "H100") {
    d.bytes_in_flight = 32 << 10;
  } else if (name == "A100") {
    d.architecture = 80, d.multiprocessors = 108, d.shared_bytes = 166912, d.bytes_in_flight = 24 << 10;
  } else if (name == "RTX 4090") {
    d.architecture = 89, d.multiprocessors = 128, d.threads_per_multiprocessor = 1536;
    d.shared_bytes = 101376, d.bytes_in_flight = 10 << 10;
  } else {
    TENON_CHECK(name == "H200", "no such GPU");
  }
  return d;
}

}  // namespace tenon::jit
