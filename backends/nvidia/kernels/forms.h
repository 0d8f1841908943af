// Forms: the variants of a kernel on a device, by sizes and alignment, and which of them are loaded. If a variant spills registers,
// a variant of a higher relax level replaces it. After the last level the kernel is cut in two where that is possible. Any thread.
// Tested by tests/unit/backends/cuda_program_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/nvidia/kernels/code.h"
#include "jit/pipeline.h"

namespace tenon::cuda {

// A kernel variant for concrete sizes and pointers of one alignment.
struct Form {
  jit::KernelVariant variant;
  bool spills = false;  // as do all faster variants
};

// A kernel on a device, with all variants that plans have asked for.
class DeviceKernel {
 public:
  // whole: the kernel cannot be cut in two.
  DeviceKernel(const Device& device, jit::LoweredKernel lowered, bool whole)
      : device_(device),
        lowered_(std::make_shared<const jit::LoweredKernel>(std::move(lowered))),
        most_relaxed_(whole ? jit::kMostRelaxed : kMostRelaxedToCut) {}

  const jit::LoweredKernel& lowered() const { return *lowered_; }

  // The fastest form that is not known to spill; if all spill, that of the highest relax level. longest: elements of the longest
  // buffer.
  Form form(std::span<const int64_t> sizes, int64_t alignment, int64_t longest) const;
  // Null: the form is not loaded yet, or only for less shared memory.
  CuFunction function(const Form& form) const;
  Wanted wanted(const Form& form) const { return {form.variant}; }
  void add(const Wanted& loaded);

 private:
  static constexpr int kMostRelaxedToCut = 2;  // level 3, one element at a time, is slower than two kernels
  struct Loaded {
    jit::KernelVariant variant;  // its launch has the most shared memory that was asked for
    CuFunction function = nullptr;
    bool spills = false;
  };
  // The entry for the variant's code, or the end of the list.
  static auto find(auto& loaded, const jit::KernelVariant& variant) {
    return std::ranges::find_if(loaded, [&](const Loaded& l) { return jit::same_code(l.variant, variant); });
  }

  const Device& device_;
  const std::shared_ptr<const jit::LoweredKernel> lowered_;  // variants share its kernel
  const int most_relaxed_;
  mutable std::mutex mutex_;
  std::vector<Loaded> loaded_;
};

// A form that is not loaded.
struct Missing {
  DeviceKernel* kernel;
  Form form;
};
// Loads the forms. From then on DeviceKernel::form() knows which of them spill. compiled: as in load().
Status load_missing(const Device& device, std::span<const Missing> all, int* compiled);

}  // namespace tenon::cuda
