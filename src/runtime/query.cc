// See query.h. Tested by tests/abi/capi*.c.
#include "src/runtime/query.h"

#include "src/base/no_fork.h"
#include "src/ir/builder.h"
#include "src/ir/op.h"
#include "src/ops/names.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

// The best bid; `why` collects the sentences of those that decline.
Backend* direct(const Graph& g, ValueId v, int device_type, std::string* why) {
  Backend* best = nullptr;
  double cost = 0;
  std::string yes, no;
  for (Backend* b : all_backends()) {
    if (b->device_type() != device_type || !b->runs_unasked()) continue;
    Bid bid = b->bid(g, v);
    if (!bid.yes)
      no += (no.empty() ? "" : "; ") + std::string(b->name()) + ": " + bid.why;
    else if (!best || bid.cost < cost)
      best = b, cost = bid.cost, yes = bid.why;
  }
  if (no.empty()) no = "no back end for device type " + std::to_string(device_type);
  *why = best ? yes : no;
  return best;
}

bool runs(const Graph& g, ValueId v, int device_type) {
  std::string why;
  return direct(g, v, device_type, &why) != nullptr;
}

// The node alone, its operands as inputs.
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

Answer answer(const Graph& g, ValueId v, int device_type) {
  const Op& row = op(g.node(v).op);
  if (row.kind == Kind::input) return {};
  std::string loops;
  for (Backend* b : all_backends())
    if (b->runs_loops() && b->device_type() == device_type) loops = b->name();
  if (row.view && !loops.empty()) return {loops, "a view: read through, or copied where it must exist"};
  std::string why;
  Backend* b = direct(g, v, device_type, &why);
  if (!row.body || b) return {b ? std::string(b->name()) : "", why};
  if (host_keeps(g.node(v), device_type)) return {"", why};
  // Through its body: every part of it must run.
  const Graph body =
      expand(alone(g, v), [&](const Graph& at, ValueId u) { return runs(at, u, device_type); });
  Answer whole{"", "through its body"};
  for (ValueId u = 0; u < body.nodes.size(); ++u) {
    const Op& part = op(body.node(u).op);
    if (part.kind == Kind::input || part.view) continue;
    Backend* runs = direct(body, u, device_type, &why);
    if (!runs) return {"", "its body needs " + std::string(part.name) + ": " + why};
    if (("+" + whole.backend + "+").find("+" + std::string(runs->name()) + "+") == std::string::npos)
      whole.backend += (whole.backend.empty() ? "" : "+") + std::string(runs->name());
  }
  if (whole.backend.empty()) whole.backend = loops;  // views alone
  return whole;
}

}  // namespace

bool host_keeps(const Node& node, int device_type) {
  if (device_type == DeviceId::kCpu) return false;
  const Op& row = op(node.op);
  return (row.kind == Kind::contract && row.arity > 1) ||
         (node.op == ops::attention && attr_as<bool>(node, "whole"));
}

std::vector<Answer> query(const Graph& given, int device_type) {
  const NoFork no_fork;  // back ends look into caches of theirs
  Graph graph = given;
  graph.dims =
      std::make_shared<DimTable>(*given.dims);  // bodies add to it; the graph may be in use elsewhere
  std::vector<Answer> answers;
  for (ValueId v = 0; v < graph.nodes.size(); ++v) answers.push_back(answer(graph, v, device_type));
  return answers;
}

}  // namespace tenon
