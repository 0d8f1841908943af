// cuda_code: the machine code of a kernel in one form for one architecture: from disk, where an earlier process left it
// (object_cache.h), else from NVRTC. Any thread; nothing is kept in memory. Tested by tests/unit/backends/cuda_program_test.cc.
#pragma once

#include <string>

#include "jit/kernel/kernel.h"
#include "jit/schedule/cuda_schedule.h"

namespace tenon::jit {

// The text of the kernel alone, in rows that the prelude has, and of the whole program.
std::string cuda_text(const Kernel& kernel, const CudaSchedule& schedule);
std::string cuda_source(const Kernel& kernel, const CudaSchedule& schedule);

struct CudaCode {
  std::string cubin;
  int registers = 0;        // per thread
  int64_t spill_bytes = 0;  // per thread, stored and loaded
  bool compiled = false;    // by this call
};

// architecture: of the device. environment, unsupported: NVRTC is missing, or knows no such device; invalid: its log.
Result<CudaCode> cuda_code(const Kernel& kernel, const CudaSchedule& schedule, int architecture);

}  // namespace tenon::jit
