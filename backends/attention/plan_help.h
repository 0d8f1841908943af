// Members that the plans of both steps have. Tested by tests/unit/backends/attention_test.cc.
#pragma once

#include <algorithm>

#include "backends/inner/kernel.h"
#include "src/base/align.h"

namespace tenon::attention {

constexpr int64_t kFloat = sizeof(float);
// Multiply-adds of a step for each thread; with fewer, waking a thread costs more than it saves.
constexpr int64_t kWorkPerThread = 1 << 15;

// Lays out scratch memory. Its parts start at cache lines.
struct ScratchFloats {
  int64_t end = 0;
  // Returns the floats in front of a new part.
  int64_t take(int64_t floats) {
    const int64_t start = end;
    end = align_up((end + floats) * kFloat) / kFloat;
    return start;
  }
};

// Kernels at the sizes of a plan.
struct PlannedKernels {
  int64_t scratch = 0;  // bytes that each of them may use
  int64_t bytes = 0;    // of all of them

  Status prepare(const inner::Kernel& kernel, inner::Kernel::Values sizes, std::unique_ptr<Step>* step) {
    TENON_ASSIGN(*step, kernel.prepare(sizes));
    scratch = std::max(scratch, (*step)->scratch_bytes());
    bytes += (*step)->bytes();
    return {};
  }
};

}  // namespace tenon::attention
