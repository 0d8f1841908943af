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
  bool causal = false, dropout = false;
};

// The first operands of the kernels of a softmax.
struct Scores {
  const float *products, *scale;
  const void* mask;             // null if there is none
  const int32_t* first_hidden;  // with a causal mask: the first column that row 0 does not see
  // With dropout: whether each weight is kept, and the factor of kept weights.
  const bool* kept;
  const float* gain;
};

// A softmax of scores: of whole rows, or of rows that come in blocks (arXiv 2205.14135, algorithm 1). Sizes of the kernel: R rows, K
// columns, S floats from row to row of scores and weights, A and B the strides of the mask along rows and columns, G the stride of
// the kept weights along rows.
class Softmax {
 public:
  enum class Rows { whole, in_blocks };
  static Result<std::unique_ptr<Softmax>> make(Rows rows, const Spec& spec, const Allocator& allocator);
  // Runs the kernel at some sizes on the calling thread. Buffers behind the scores: of whole rows, the weights and the weights after
  // dropout, which are not written without it. Of blocks, the state of each row, which is its largest score so far and the sum of the exponentials; then the
  // results: the next largest, the exponentials after dropout, the factors for sums of earlier blocks, the next sum.
  Status run(const Step& step, const Scores& scores, std::initializer_list<const void*> others,
             char* scratch) const;
  const inner::Kernel& kernel() const { return *kernel_; }

 private:
  bool causal_ = false, has_mask_ = false, dropout_ = false;
  std::unique_ptr<inner::Kernel> kernel_;
};

// The kernels around the products of the gradient.
struct GradientKernels {
  std::unique_ptr<Softmax> softmax;
  // scale * weights * (d - sum of d * weights over a row), for the gradient d of the weights. Buffers: weights, d, scale, the result; sizes
  // R, K and S. With dropout, the weights are those after dropout, a buffer behind d has those before it, and the result is
  // scale * (kept * d - weights * sum of kept * d over a row).
  std::unique_ptr<inner::Kernel> softmax_gradient;
  std::unique_ptr<inner::Kernel> widen;  // as that of Kernels
  // f32 rows [R,D] of S floats in the type of the result, whose strides are Y and E. Null for a dense result in f32.
  std::unique_ptr<inner::Kernel> store;

  static Result<GradientKernels> make(const Spec& spec, const Allocator& allocator);
  int compiled() const;
};

struct Kernels {
  std::unique_ptr<Softmax> whole, cut;  // cut: for blocks that a causal mask cuts, null without one
  // y[R,D] = sums / total, and 0 in rows that see nothing. Rows of sums have S floats; Y and E are the strides of y. Buffers: sums,
  // total, y.
  std::unique_ptr<inner::Kernel> quotient;
  // Operands of 16 bits [R,D] in f32; rows of the operand have the stride A, those of the result Z. Null for f32.
  std::unique_ptr<inner::Kernel> widen;

  static Result<Kernels> make(const Spec& spec, const Allocator& allocator);
  int compiled() const;
};

}  // namespace tenon::attention
