// The variant of a kernel that a GPU runs, for tests that begin with a kernel.
#pragma once

#include "jit/pipeline.h"

namespace tenon::jit {

inline KernelVariant variant_of(const Kernel& kernel, std::span<const int64_t> sizes,
                                const CudaDevice& device, int64_t alignment = 16, int64_t longest_buffer = -1,
                                int relax_level = 0) {
  return cuda_variant(std::make_shared<const Kernel>(kernel), sizes, device, alignment, longest_buffer,
                      relax_level);
}

}  // namespace tenon::jit
