// emit_cuda: a kernel as self-contained CUDA C++17 text, the counterpart of emit_llvm. The text is the
// prelude (jit/cuda/cuda_prelude.cuh), which has every function that the kernel calls, and one kernel:
//
//   extern "C" __global__ void NAME(buffers..., sizes..., char* scratch, tn_ix scratch_stride)
//
// Buffers come in the order of Kernel::buffers without locals, sizes as tn_ix (32 or 64 bits, as the schedule
// says). The scratch arguments exist only if locals are in global memory. Scalar instructions call tn_ROW of
// the prelude; rows that it lacks are expanded to their math body. Tested by
// tests/unit/jit/cuda/emit_cuda_test.cc, which runs the text on the host, and by tests/golden/jit/*.tn.
#pragma once

#include <string>
#include <string_view>

#include "jit/kernel/kernel.h"
#include "jit/schedule/cuda_schedule.h"

namespace tenon::jit {

// The text of the kernel alone. The kernel is legal (cuda_code.h).
std::string emit_cuda(const Kernel& kernel, const CudaSchedule& schedule);

// The text before the kernel: settings, then the primitives (of a device), then the prelude.
std::string cuda_settings(const CudaSchedule& schedule);
std::string_view cuda_primitives();
std::string_view cuda_prelude();
}  // namespace tenon::jit
