// The graph evaluator: concrete tensors in, concrete tensors out; slow and simple. It folds constants, and every fast path
// is compared with it.
//
// Numbers: the float arithmetic of a map row runs in double and is rounded once to the dtype (to a 16-bit float through
// f32); integers run in int64 and wrap. A reduction accumulates in double, from its identity, in row-major order, and
// rounds once. Matmul and convolution sum their products in the same way. Composites are evaluated through their bodies, so
// each node of a body rounds. Tested by tests/unit/ops/eval_test.cc and tests/unit/ops/table_test.cc.
#pragma once

#include <functional>
#include <span>

#include "src/ops/eval/host_tensor.h"

namespace tenon {

struct EvalOptions {
  bool by_body = false;  // evaluate matmul and convolution through their bodies, not by direct loops
};

// The inputs are in the graph's order. Fails with invalid if they do not fit the graph or a size conflicts,
// with unsupported for opaque rows.
Result<std::vector<HostTensor>> evaluate(const Graph& graph, std::span<const HostTensor> inputs,
                                         EvalOptions options = {});
// Evaluates one node of a graph whose sizes are all constant.
Result<HostTensor> evaluate_node(const Graph& graph, const Node& node,
                                 std::span<const HostTensor* const> operands, EvalOptions options = {});

// The values of the symbols, by symbol number, from the shapes of the inputs. `scalar(i)` returns the value
// of the i64[] input i that defines a symbol. A size is solved if one unknown enters it linearly; then every
// size of every input is checked.
Result<std::vector<int64_t>> solve_symbols(const Graph& graph, std::span<const std::vector<int64_t>> shapes,
                                           const std::function<int64_t(size_t)>& scalar);
// The assumed equalities whose symbols the inputs determine. The graph does not use the symbols of the
// others.
std::vector<DimTable::Equality> assumptions_of(const Graph& graph);
// Fails with unsupported if an assumption does not hold at these symbol values.
Status check_assumptions(const Graph& graph, std::span<const DimTable::Equality> assumptions,
                         std::span<const int64_t> values);
// The graph at these symbol values. Every size becomes a constant and every type is inferred anew, which
// checks the conditions that symbols left open (slice bounds, windows, reshapes).
Result<Graph> at_sizes(const Graph& graph, std::span<const int64_t> values);

}  // namespace tenon
