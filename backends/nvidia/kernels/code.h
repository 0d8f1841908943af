// Code: kernels as they run on a device. A kernel is compiled when a plan first asks for it in this form, once however many
// ask, and kept for the life of the process: work that is queued may still run it. Any thread. Tested by tests/unit/backends/cuda_program_test.cc.
#pragma once

#include <span>

#include "backends/nvidia/device/device.h"
#include "jit/pipeline.h"

namespace tenon::cuda {

// A kernel in one form, and where it stands on the device.
struct Wanted {
  jit::KernelVariant variant;     // its launch says how many dynamic shared bytes are asked for
  CuFunction function = nullptr;  // set by load()
  int64_t spill_bytes = 0;        // likewise
};
// Loads them all; what has to be compiled is compiled in parallel. compiled: increased by how many went through NVRTC for
// this call. While a stream of the process captures nothing can be loaded: environment, in the driver's words.
Status load(const Device& device, std::span<Wanted> wanted, int* compiled = nullptr);

// Forgets devices and code, which nothing may use any more. For tests.
void forget_all();

}  // namespace tenon::cuda
