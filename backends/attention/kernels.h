// The kernels around the products of a block of attention, from the CPU back end. Rows are queries, columns are keys.
// Tested by tests/unit/backends/attention_test.cc.
#pragma once

#include <optional>

#include "backends/inner/kernel.h"

namespace tenon::attention {

// The parts of a node that the texts of its kernels depend on.
struct Spec {
  DType dtype = DType::f32;        // of the operands and the result
  std::optional<Dim> mask_column;  // stride of the mask along columns; nullopt without a mask
  Dim result_element = Dim(1);     // stride of the result along elements
};

// The memory of a block. Each row has a state that goes from block to block: the largest score so far and the sum of the exponentials.
struct Block {
  const float *scores, *scale;
  const void* mask;  // null if there is none
  // In a block that a causal mask cuts: the first column that row 0 does not see.
  const int32_t* first_hidden;
  const float *largest, *total;
  // Results: the exponentials, the next state, and the factors for sums of earlier blocks.
  float *weights, *next_largest, *next_total, *factors;
};

// The softmax of rows whose scores come in blocks (arXiv 2205.14135, algorithm 1).
class Softmax {
 public:
  // causal: for blocks that a causal mask cuts. Sizes of the kernel: R rows, K columns, S floats from row to row of scores and weights,
  // A and B the strides of the mask along rows and columns.
  static Result<std::unique_ptr<Softmax>> make(const Spec& spec, bool causal, const Allocator& allocator);
  // Runs the kernel at some sizes on the calling thread.
  Status run(const Step& step, const Block& block, char* scratch) const;
  const inner::Kernel& kernel() const { return *kernel_; }

 private:
  bool causal_ = false, has_mask_ = false;
  std::unique_ptr<inner::Kernel> kernel_;
};

struct Kernels {
  std::unique_ptr<Softmax> whole, cut;  // cut: for blocks that a causal mask cuts, null without one
  // y[R,D] = sums / total, and 0 in rows that see nothing. Rows of sums have S floats; Y and E are the strides of y. Buffers: sums,
  // total, y.
  std::unique_ptr<inner::Kernel> quotient;
  // Operands of 16 bits [R,D] in f32; rows of the operand have the stride A, those of the result Z. Null for f32.
  std::unique_ptr<inner::Kernel> widen;

  static Result<Kernels> make(const Spec& spec, bool causal, const Allocator& allocator);
  int compiled() const;
};

}  // namespace tenon::attention
