// The evaluator's functions for the kinds of nodes, on operands of constant sizes. `out` comes in allocated,
// with the node's type. Tested by tests/unit/ops/eval_test.cc.
#pragma once

#include "src/ops/eval/host_tensor.h"

namespace tenon {

using Operands = std::span<const HostTensor* const>;

Status eval_source(const Node& node, HostTensor& out);
Status eval_map(const Node& node, Operands in, HostTensor& out);
Status eval_reduce(const Node& node, Operands in, HostTensor& out);
Status eval_scan(const Node& node, Operands in, HostTensor& out);
Status eval_move(const Node& node, Operands in, HostTensor& out);
Status eval_order(const Node& node, Operands in, HostTensor& out);
Status eval_recurrent(const Node& node, Operands in, HostTensor& out);
Status eval_recurrent_gradient(const Node& node, Operands in, HostTensor& out);
// Evaluates matmul and convolution by direct loops; unsupported for other ops.
Status eval_contract(const Node& node, Operands in, HostTensor& out);

}  // namespace tenon
