// Bodies: ops in terms of other ops, for the body column of the rows. A body takes the node (its operands are
// values of the builder's graph, its attributes are complete) and returns the value that replaces it, of
// exactly the node's type. Sizes may be symbolic. 16-bit floats are computed in f32 and rounded once, at the
// end. Numerics are PyTorch's: NaN propagates, softmax of a row of -inf is NaN, attention over such a row is
// zero. Tested by tests/unit/ops/table_test.cc, against PyTorch by tests/torch/test_lower.py.
#pragma once

#include "src/ir/builder.h"

namespace tenon::bodies {

// Activations (src/ops/bodies/activation.cc).
ValueId relu(Builder& b, const Node& node);
ValueId leaky_relu(Builder& b, const Node& node);
ValueId elu(Builder& b, const Node& node);
ValueId gelu(Builder& b, const Node& node);
ValueId silu(Builder& b, const Node& node);
ValueId mish(Builder& b, const Node& node);
ValueId softplus(Builder& b, const Node& node);
ValueId hardswish(Builder& b, const Node& node);
ValueId hardsigmoid(Builder& b, const Node& node);
ValueId hardtanh(Builder& b, const Node& node);
ValueId stop_gradient(Builder& b, const Node& node);

// Random numbers (src/ops/bodies/random.cc).
ValueId random_uniform(Builder& b, const Node& node);

// Reductions in terms of other reductions (src/ops/bodies/reduce.cc).
ValueId mean(Builder& b, const Node& node);
ValueId var(Builder& b, const Node& node);
ValueId argmax(Builder& b, const Node& node);
ValueId argmin(Builder& b, const Node& node);
ValueId softmax(Builder& b, const Node& node);
ValueId log_softmax(Builder& b, const Node& node);
ValueId logsumexp(Builder& b, const Node& node);

// Norms (src/ops/bodies/norm.cc).
ValueId layer_norm(Builder& b, const Node& node);
ValueId rms_norm(Builder& b, const Node& node);
ValueId group_norm(Builder& b, const Node& node);
// The same for layout "channels_last": the mean of each channel, then of the channels of a group, as one number for each channel. So lanes
// run along all channels, while those of group_norm run along the channels of a group.
ValueId group_norm_by_channels(Builder& b, const Node& node);
ValueId instance_norm(Builder& b, const Node& node);
ValueId batch_norm(Builder& b, const Node& node);

// Contractions, pooling and attention (src/ops/bodies/contract.cc, src/ops/bodies/pool.cc).
ValueId matmul(Builder& b, const Node& node);
ValueId int_matmul(Builder& b, const Node& node);
ValueId grouped_matmul(Builder& b, const Node& node);
ValueId grouped_outer(Builder& b, const Node& node);
ValueId linear(Builder& b, const Node& node);
ValueId attention(Builder& b, const Node& node);           // src/ops/bodies/attention.cc
ValueId attention_gradient(Builder& b, const Node& node);  // likewise
ValueId convolution(Builder& b, const Node& node);
ValueId convolution_weight_gradient(Builder& b, const Node& node);
ValueId max_pool(Builder& b, const Node& node);
ValueId avg_pool(Builder& b, const Node& node);
ValueId adaptive_avg_pool(Builder& b, const Node& node);

// Steps of a sequence one by one, up to 1,024 of them (src/ops/bodies/recurrent.cc).
ValueId recurrent(Builder& b, const Node& node);
bool unrolls(const Graph& graph, const Node& node);  // whether the number of steps is constant and moderate

}  // namespace tenon::bodies
