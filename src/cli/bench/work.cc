// See work.h. Tested by tests/bench_test.py.
#include "src/cli/bench/work.h"

#include <algorithm>
#include <set>

#include "src/ir/builder.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"
#include "src/runtime/cost.h"

namespace tenon::cli {
namespace {

// Counts the bytes of an input that the graph reads. Slices and gathers read what they take. Places that share an element read it once.
double bytes_read(const Graph& graph, const Uses& uses, const Cost& cost, const InputBinding& in) {
  double taken = 0, all = cost.bytes(in.value);
  const Dims& shape = graph.type(in.value).shape;
  for (size_t i = 0; in.strides && i < shape.size(); ++i)
    if ((*in.strides)[i] == Dim(0)) all /= std::max(cost.size(shape[i]), 1.0);
  for (const ValueId user : uses.users(in.value)) {
    const Node& node = graph.node(user);
    const bool takes = node.op == ops::slice || node.op == ops::gather || node.op == ops::take_along;
    taken += takes && node.inputs[0] == in.value ? cost.bytes(user) : all;
  }
  return uses.is_output(in.value) ? all : std::min(taken, all);
}

Graph apart(const Graph& graph) {
  return expand(graph, [](const Graph& g, ValueId v) { return op(g.node(v).op).kind == Kind::contract; });
}

// Counts the bytes of Work::apart_bytes.
double bytes_apart(const Graph& graph, std::span<const int64_t> symbols) {
  const Cost cost(graph, symbols);
  double bytes = 0;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.nodes.size()); ++v) {
    const Node& node = graph.node(v);
    if (op(node.op).kind == Kind::input || op(node.op).view) continue;
    bytes += cost.bytes(v);
    for (const ValueId operand : std::set(node.inputs.begin(), node.inputs.end()))
      bytes += cost.bytes(operand);
  }
  return bytes;
}

}  // namespace

Work work_of(const Graph& graph, std::span<const int64_t> symbols) {
  const Graph g = apart(graph);
  const Cost cost(g, symbols);
  Work work;
  work.apart_bytes = bytes_apart(graph, symbols);
  const Uses uses(g);
  for (const InputBinding& in : g.inputs) work.bytes += bytes_read(g, uses, cost, in);
  for (const OutputBinding& out : g.outputs) work.bytes += cost.bytes(out.value);
  for (ValueId v = 0; v < static_cast<ValueId>(g.nodes.size()); ++v) {
    const Op& row = op(g.node(v).op);
    if (row.kind == Kind::input || row.view) continue;
    ++work.nodes;
    work.operations += cost.operations(v);
    if (row.kind == Kind::contract)
      work.peak_holds &= (g.node(v).op == ops::matmul || g.node(v).op == ops::linear) &&
                         g.type(g.node(v).inputs[0]).dtype == DType::f32;
    const std::string name(row.name);
    if (row.expensive && std::ranges::find(work.expensive, name) == work.expensive.end())
      work.expensive.push_back(name);
  }
  return work;
}

Graph without_expensive(const Graph& graph) {
  return rewrite(apart(graph), [](Builder& b, Node&& node, ValueId) {
    if (!op(node.op).expensive || node.inputs.size() != 1 || node.op == ops::cast)
      return b.add(std::move(node));
    return b(ops::neg, {node.inputs[0]});
  });
}

}  // namespace tenon::cli
