// cuda_code: the machine code of a kernel with one schedule for one architecture: from disk, if an earlier
// process stored it (disk_cache.h), otherwise from NVRTC. Any thread. Keeps nothing in memory. Tested by
// tests/unit/backends/cuda_program_test.cc.
#pragma once

#include <string>

#include "jit/pipeline.h"

namespace tenon::jit {

// The text of the kernel alone, which uses only rows of the prelude, and the text of the whole program.
std::string cuda_text(const Kernel& kernel, const CudaSchedule& schedule);
std::string cuda_source(const Kernel& kernel, const CudaSchedule& schedule);

struct CudaCode {
  std::string cubin;
  int registers = 0;        // per thread
  int64_t spill_bytes = 0;  // per thread, stored and loaded
  bool compiled = false;    // this call compiled it
};

// architecture: of the device. environment, unsupported: NVRTC is missing, or does not know the device.
// invalid: the log of NVRTC.
Result<CudaCode> cuda_code(const KernelVariant& variant, int architecture);

}  // namespace tenon::jit
