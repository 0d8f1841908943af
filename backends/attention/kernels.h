// The kernels around the products of a block of attention, from the CPU back end. Rows are queries, columns are keys.
// Tested by tests/unit/backends/attention_test.cc.
#pragma once

#include <optional>

#include "backends/inner/kernel.h"

namespace tenon::attention {

// A block of scores at the sizes of a plan: [rows, columns], in rows of `stride` floats.
struct BlockShape {
  int64_t rows, columns, stride;
  int64_t mask_row = 0, mask_column = 0;  // strides of the mask in floats
};

// The memory of a block. Each row has a state that goes from block to block: the largest score so far and the sum of the exponentials.
struct Block {
  const float *scores, *scale;
  const void* mask;  // null if there is none
  const int32_t*
      first_hidden;  // of a block that a causal mask cuts: the first column that row 0 does not see
  const float *largest, *total;
  // Results: the exponentials, the next state, and the factors for sums of earlier blocks.
  float *weights, *next_largest, *next_total, *factors;
};

// The softmax of rows whose scores come in blocks (arXiv 2205.14135, algorithm 1).
class Softmax {
 public:
  // mask_column: the stride of the mask along columns; nullopt without a mask. causal: for blocks that a causal mask cuts.
  static Result<std::unique_ptr<Softmax>> make(std::optional<Dim> mask_column, bool causal,
                                               const Allocator& allocator);
  Result<std::unique_ptr<Step>> prepare(const BlockShape& shape) const;
  // Runs a step of prepare() on the calling thread.
  Status run(const Step& step, const Block& block, char* scratch) const;
  const inner::Kernel& kernel() const { return *kernel_; }

 private:
  bool causal_ = false, has_mask_ = false;
  std::unique_ptr<inner::Kernel> kernel_;
};

// The kernel y[R,D] = sums / total, and 0 in rows that see nothing. Rows of sums have S floats, those of y Y; the elements of y have
// the stride `lanes`, or the value of E. Buffers: sums, total, y.
Result<std::unique_ptr<inner::Kernel>> make_quotient(Dim lanes, const Allocator& allocator);

}  // namespace tenon::attention
