// See query.h. Tested by tests/abi/capi*.c.
#include "src/runtime/compile/query.h"

#include "src/base/no_fork.h"
#include "src/ir/builder.h"
#include "src/ir/op.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"
#include "src/runtime/compile/placement.h"

namespace tenon {
namespace {

// A graph of this node alone, with its operands as inputs.
Graph alone(const Graph& g, ValueId v) {
  Graph out;
  out.dims = g.dims;
  Builder b(out);
  Node node = g.node(v);
  node.name.clear();
  for (ValueId& operand : node.inputs) {
    auto input = b.try_input("", g.type(operand));
    TENON_CHECK(input.ok(), input.status().message());
    operand = *input;
  }
  out.outputs.push_back({b.add(std::move(node)), std::nullopt});
  return out;
}

Answer answer(const BackendPlacement& placement, const Graph& g, ValueId v, int device_type) {
  const Op& row = op(g.node(v).op);
  if (row.kind == Kind::input) return {};
  const std::string loops(placement.loops());
  if (row.view && !loops.empty()) return {loops, "a view: readers read through it, or it is copied"};
  std::string why;
  const Backend* b = placement.best(g, v, &why);
  if (!row.has_body(g, g.node(v)) || b) return {b ? std::string(b->name()) : "", why};
  if (host_keeps(g.node(v), device_type)) return {"", why};
  // The node runs through its body: every part of the body must run.
  const Graph body =
      expand(alone(g, v), [&](const Graph& at, ValueId u) { return placement.best(at, u) != nullptr; });
  Answer whole{"", "through its body"};
  for (ValueId u = 0; u < body.nodes.size(); ++u) {
    const Op& part = op(body.node(u).op);
    if (part.kind == Kind::input || part.view) continue;
    const Backend* runs = placement.best(body, u, &why);
    if (!runs) return {"", "its body needs " + std::string(part.name) + ": " + why};
    if (("+" + whole.backend + "+").find("+" + std::string(runs->name()) + "+") == std::string::npos)
      whole.backend += (whole.backend.empty() ? "" : "+") + std::string(runs->name());
  }
  if (whole.backend.empty()) whole.backend = loops;  // only views
  return whole;
}

}  // namespace

std::vector<Answer> query(const Graph& given, int device_type) {
  const NoFork no_fork;  // back ends look into their caches
  Graph graph = given;
  graph.dims = std::make_shared<DimTable>(*given.dims);  // bodies add to it; other threads may use the graph
  const BackendPlacement placement(backends_of(device_type), device_type);
  std::vector<Answer> answers;
  for (ValueId v = 0; v < graph.nodes.size(); ++v)
    answers.push_back(answer(placement, graph, v, device_type));
  return answers;
}

}  // namespace tenon
