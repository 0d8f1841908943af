// The kernels around the products of a block of attention, from the CPU back end. Rows are queries, columns are keys.
// Tested by tests/unit/backends/attention_test.cc.
#pragma once

#include <optional>

#include "backends/inner/kernel.h"

namespace tenon::attention {

constexpr int64_t kFloat = sizeof(float);
// Multiply-adds of a step for each thread; with fewer, waking a thread costs more than it saves.
constexpr int64_t kWorkPerThread = 1 << 15;

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

// The memory of the softmax of whole rows.
struct WholeRows {
  const float *scores, *scale;
  const void* mask;             // null if there is none
  const int32_t* first_hidden;  // with a causal mask: the first column that row 0 does not see
  float* weights;               // the result
};

// The kernels around the products of the gradient.
struct GradientKernels {
  bool causal = false, has_mask = false;
  // The softmax of rows. Sizes: R rows, K columns, S floats from row to row, A and B the strides of the mask along rows and columns.
  std::unique_ptr<inner::Kernel> softmax;
  // scale * weights * (d - sum of d * weights over a row), for the gradient d of the weights. Buffers: weights, d, scale, the result; sizes
  // R, K and S.
  std::unique_ptr<inner::Kernel> softmax_gradient;
  std::unique_ptr<inner::Kernel> widen;  // as that of Kernels
  // f32 rows [R,D] of S floats in the type of the result, whose strides are Y and E. Null for a dense result in f32.
  std::unique_ptr<inner::Kernel> store;

  static Result<GradientKernels> make(const Spec& spec, bool causal, const Allocator& allocator);
  Status run_softmax(const Step& step, const WholeRows& rows, char* scratch) const;
  int compiled() const;
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
