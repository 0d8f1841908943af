// Code: kernels that are compiled and loaded on a device. A kernel variant is compiled once, when a plan first needs it, also if
// several threads ask at once. It is kept for the life of the process, since queued work may still run it. Any thread.
// Tested by tests/unit/backends/cuda_program_test.cc.
#pragma once

#include <span>

#include "backends/nvidia/device/device.h"
#include "jit/pipeline.h"

namespace tenon::cuda {

// A kernel variant to load, and the function on the device.
struct Wanted {
  jit::KernelVariant variant;     // its launch states the dynamic shared memory
  CuFunction function = nullptr;  // set by load()
  int64_t spill_bytes = 0;        // set by load()
};
// Loads all variants, and compiles those that need it in parallel. compiled: increased by the number that this call compiled with
// NVRTC. environment, with the driver's error: a stream of the process captures, so nothing can be loaded.
Status load(const Device& device, std::span<Wanted> wanted, int* compiled = nullptr);

// Forgets devices and code; nothing may use them any more. For tests.
void forget_all();

}  // namespace tenon::cuda
