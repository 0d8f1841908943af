// Attention as one call of cuDNN: softmax(scale q k^T + mask) v. The scores are never stored. The library compiles a kernel for
// every set of sizes, which takes a third of a second, so it is used only if all sizes are constants. Tensors have the layout
// [B,L,H,D], as in models, so that the nodes that follow read the result in place. The library gets no minus infinity, since it may
// turn it into NaN (github.com/pytorch/pytorch, attention.cpp): loops in front of the call bound the mask, and loops behind the
// call write zeros to the rows in which the mask hides every column.
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
  Operand q, k, v, y;           // [B,L,H,D]; if k and v have fewer heads, each serves several heads of q
  std::optional<Operand> mask;  // [B,H,L,L]; axes of size 1 are broadcast
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

// unsupported, with the reason: the library is not used for this node.
Status takes_attention(const Graph& graph, const Node& attention);
// Whether the library reads this operand (0: q, 1: k, 2: v, 3: the mask) in place: its last axis is dense, and the strides of the
// other axes of q, k and v are multiples of 16 bytes.
bool reads_attention(const Graph& graph, const Node& attention, int operand, const StridesOf& strides_of);
// Rewrites the node to the layout [B,L,H,D], with views around it. Reduces the mask to the part that is not broadcast, bounds it,
// and adds the nodes that handle rows without visible columns.
ValueId arrange_attention(Builder& b, Node attention);
Result<AttentionSpec> attention_spec(const Graph& graph, ValueId attention, const StridesOf& strides_of);
PlacedProblem at_sizes(const AttentionSpec& spec, const Sizes& sizes);

}  // namespace tenon::cudnn
