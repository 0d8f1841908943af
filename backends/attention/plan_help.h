// Types and functions that both steps use. Tested by tests/unit/backends/attention_test.cc.
#pragma once

#include <algorithm>

#include "backends/inner/kernel.h"
#include "backends/inner/placed_operand.h"
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

// A row of the operand [B,H,L,S] that says which weights dropout keeps; null without dropout.
inline const bool* row_of_kept(const inner::PlacedOperand& kept, void* const* buffers, int64_t batch,
                               int64_t head, int64_t row) {
  if (!kept.used()) return nullptr;
  return static_cast<const bool*>(buffers[kept.buffer]) + kept.offset + batch * kept.strides[0] +
         head * kept.strides[1] + row * kept.strides[2];
}

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
