// See work.h. Tested by tests/bench_test.py.
#include "src/cli/bench/work.h"

#include <algorithm>

#include "src/ir/builder.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon::cli {
namespace {

Graph apart(const Graph& graph) {
  return expand(graph, [](const Graph& g, ValueId v) { return op(g.node(v).op).kind == Kind::contract; });
}

class Counter {
 public:
  Counter(const Graph& g, std::span<const int64_t> symbols) : g_(g), symbols_(symbols) {}

  double size(Dim d) const { return static_cast<double>(g_.dims->eval(d, symbols_).value_or(0)); }
  double elements(ValueId v) const {
    double n = 1;
    for (const Dim d : g_.type(v).shape) n *= size(d);
    return n;
  }
  double bytes(ValueId v) const { return elements(v) * size_of(g_.type(v).dtype); }
  double operations(ValueId v) const {
    const Node& node = g_.node(v);
    const Op& row = op(node.op);
    if (row.kind == Kind::reduce || row.kind == Kind::scan) return elements(node.inputs[0]);
    if (row.kind == Kind::move || row.kind == Kind::input) return 0;
    if (row.kind != Kind::contract) return elements(v);
    const Dims& first = g_.type(node.inputs[0]).shape;
    if (node.op == ops::matmul) return 2 * elements(v) * (first.empty() ? 1 : size(first.back()));
    if (node.op == ops::convolution) {
      const ValueId weight = node.inputs[1];
      return 2 * elements(v) * elements(weight) / std::max(size(g_.type(weight).shape[0]), 1.0);
    }
    return elements(node.inputs[0]);
  }

 private:
  const Graph& g_;
  std::span<const int64_t> symbols_;
};

}  // namespace

Work work_of(const Graph& graph, std::span<const int64_t> symbols) {
  const Graph g = apart(graph);
  const Counter count(g, symbols);
  Work work;
  for (const InputBinding& in : g.inputs) work.bytes += count.bytes(in.value);
  for (const OutputBinding& out : g.outputs) work.bytes += count.bytes(out.value);
  for (ValueId v = 0; v < static_cast<ValueId>(g.nodes.size()); ++v) {
    const Op& row = op(g.node(v).op);
    if (row.kind == Kind::input || row.view) continue;
    ++work.nodes;
    work.operations += count.operations(v);
    work.apart_bytes += count.bytes(v);
    for (const ValueId operand : g.node(v).inputs) work.apart_bytes += count.bytes(operand);
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
