// The graph evaluator: concrete tensors in, concrete tensors out, slow and obviously right. It is what
// constants are folded with and what every fast path is compared against.
//
// Numbers: a map row's float arithmetic runs in double and is rounded once to the dtype (to a 16-bit float
// through f32); integers run in int64 and wrap. A reduction accumulates in double, from its identity, in
// row-major order, and rounds once. Matmul and convolution do the same over the products. Composites are
// evaluated through their bodies, so that each node of a body rounds. Tested by tests/unit/ops/eval_test.cc and
// tests/unit/ops/table_test.cc.
#pragma once

#include <functional>
#include <span>

#include "src/ops/host_tensor.h"

namespace tenon {

struct EvalOptions {
  bool by_body = false;  // matmul and convolution through their bodies, not by direct loops
};

// Inputs in the graph's order. invalid when they do not fit the graph or a size conflicts; unsupported for
// opaque rows.
Result<std::vector<HostTensor>> evaluate(const Graph& graph, std::span<const HostTensor> inputs,
                                         EvalOptions options = {});
// One node of a graph whose sizes are all constant.
Result<HostTensor> evaluate_node(const Graph& graph, const Node& node,
                                 std::span<const HostTensor* const> operands, EvalOptions options = {});

// The symbols' values from the inputs' shapes, by symbol number. `scalar(i)` gives the value of the i64[]
// input i that defines a symbol. Sizes are solved where one unknown enters linearly; every size of every
// input is then checked.
Result<std::vector<int64_t>> solve_symbols(const Graph& graph, std::span<const std::vector<int64_t>> shapes,
                                           const std::function<int64_t(size_t)>& scalar);
// The assumed equalities that its inputs tell; the others are about symbols that the graph does without.
std::vector<DimTable::Equality> assumptions_of(const Graph& graph);
// Whether they hold at these symbol values, or `unsupported`.
Status check_assumptions(const Graph& graph, std::span<const DimTable::Equality> assumptions,
                         std::span<const int64_t> values);
// The graph at these symbol values: every size a constant, every type inferred anew, so that the conditions
// that symbols left open (slice bounds, windows, reshapes) are checked.
Result<Graph> at_sizes(const Graph& graph, std::span<const int64_t> values);

}  // namespace tenon
