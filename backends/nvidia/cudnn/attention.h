// Attention as one call of cuDNN: softmax(scale q k^T + mask) v, whose scores are never stored. The library compiles a kernel for
// every set of sizes, which takes it a third of a second, so it is asked only where sizes are no symbols. Heads stand behind the
// length ([B,L,H,D]), as models hold them: the result is then read in place by what follows. The library is never shown minus
// infinity, of which it may make NaN (github.com/pytorch/pytorch, attention.cpp): loops before the call bound the mask, and what
// it hides to the last column is made zero by loops behind it.
// Tested by tests/unit/backends/cudnn_attention_test.cc; on NVIDIA's library by tests/unit/backends/cudnn_plan_test.cc.
#pragma once

#include <optional>

#include "backends/nvidia/cudnn/problem.h"
#include "src/ir/builder.h"

namespace tenon::cudnn {

struct AttentionSpec {
  DType dtype = DType::f16;
  bool causal = false;
  float scale = 1;
  Operand q, k, v, y;           // [B,L,H,D]; fewer heads of k and v serve several of q each
  std::optional<Operand> mask;  // [B,H,L,L], axes of size 1 repeated
};

struct AttentionProblem final : Problem {
  bool causal = false;
  float scale = 1;
  Operations::Shape q, k, v, y;  // [B,H,L,D]
  std::optional<Operations::Shape> mask;
  DType mask_dtype = DType::f32;

  std::string key() const override;
  std::string text() const override;  // "2x12x512x64 by 2x12x512x64 bf16, mask 2x1x1x512"
  Status describe(Operations& operations) const override;
  std::vector<float> numbers() const override;
};

// ok, or unsupported where the library is not asked, with the reason.
Status takes_attention(const Graph& graph, const Node& attention);
// Whether the library takes this operand (0: q, 1: k, 2: v, 3: the mask) as it lies: the last axis dense, the others of [B,L,H,D]
// 16 bytes apart or a multiple of that.
bool reads_attention(const Graph& graph, const Node& attention, int operand, const StridesOf& strides_of);
// The node with heads behind the length, and views around it; a mask as far as it is not repeated.
ValueId arrange_attention(Builder& b, Node attention);
Result<AttentionSpec> attention_spec(const Graph& graph, ValueId attention, const StridesOf& strides_of);
Work at_sizes(const AttentionSpec& spec, const Sizes& sizes);

}  // namespace tenon::cudnn
