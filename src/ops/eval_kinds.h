// How the evaluator computes a node of each kind, on operands of constant sizes. Results come out already
// allocated in the node's type. Tested by tests/unit/ops/eval_test.cc.
#pragma once

#include "src/ops/host_tensor.h"

namespace tenon {

using Operands = std::span<const HostTensor* const>;

Status eval_source(const Node& node, HostTensor& out);
Status eval_map(const Node& node, Operands in, HostTensor& out);
Status eval_reduce(const Node& node, Operands in, HostTensor& out);
Status eval_scan(const Node& node, Operands in, HostTensor& out);
Status eval_move(const Node& node, Operands in, HostTensor& out);
Status eval_order(const Node& node, Operands in, HostTensor& out);
// Directly where there is a loop for it: matmul, convolution. unsupported otherwise.
Status eval_contract(const Node& node, Operands in, HostTensor& out);

}  // namespace tenon
