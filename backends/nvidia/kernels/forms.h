// Forms: how a kernel runs on a device, by sizes and alignment, and which of these are loaded. A kernel that spills runs in an
// easier form; if that spills too it is cut in two, if it can be. Any thread.
// Tested by tests/unit/backends/cuda_program_test.cc.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "backends/nvidia/kernels/code.h"
#include "jit/pipeline.h"

namespace tenon::cuda {

// At concrete sizes, for pointers of one alignment.
struct Form {
  jit::KernelVariant variant;
  bool spills = false;  // as do all faster variants
};

// A kernel on a device, in as many forms as plans have asked for.
class DeviceKernel {
 public:
  // whole: nothing comes of cutting it.
  DeviceKernel(const Device& device, jit::LoweredKernel lowered, bool whole)
      : device_(device),
        lowered_(std::move(lowered)),
        kernel_(std::make_shared<const jit::Kernel>(lowered_.kernel)),
        most_relaxed_(whole ? jit::kMostRelaxed : kMostRelaxedToCut) {}

  const jit::LoweredKernel& lowered() const { return lowered_; }

  // The fastest that does not spill, as far as is known; if all do, the easiest. longest: elements of the longest buffer.
  Form form(std::span<const int64_t> sizes, int64_t alignment, int64_t longest) const;
  // Null: not loaded for so many shared bytes yet.
  CuFunction function(const Form& form) const;
  Wanted wanted(const Form& form) const { return {form.variant}; }
  void add(const Wanted& loaded);

 private:
  static constexpr int kMostRelaxedToCut = 1;  // one element at once is slower than two kernels
  struct Loaded {
    jit::KernelVariant variant;  // with the launch of most shared bytes
    CuFunction function = nullptr;
    bool spills = false;
  };
  const Loaded* find(const jit::KernelVariant& variant) const;

  const Device& device_;
  const jit::LoweredKernel lowered_;
  const std::shared_ptr<const jit::Kernel> kernel_;  // of lowered_
  const int most_relaxed_;
  mutable std::mutex mutex_;
  std::vector<Loaded> loaded_;
};

// A form that is not loaded.
struct Missing {
  DeviceKernel* kernel;
  Form form;
};
// Loads them. What spills says so from then on. compiled: as in load().
Status load_missing(const Device& device, std::span<const Missing> all, int* compiled);

}  // namespace tenon::cuda
