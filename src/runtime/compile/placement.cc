// See placement.h.
#include "src/runtime/compile/placement.h"

#include "src/ir/op.h"
#include "src/ops/rows/names.h"

namespace tenon {

std::vector<Backend*> backends_of(int device_type) {
  std::vector<Backend*> list;
  for (Backend* b : all_backends())
    if (b->device_type() == device_type && b->runs_unasked()) list.push_back(b);
  return list;
}

bool host_keeps(const Node& node, int device_type) {
  if (device_type == DeviceId::kCpu) return false;
  const Op& row = op(node.op);
  return (row.kind == Kind::contract && row.arity > 1) ||
         (node.op == ops::attention && attr_as<bool>(node, "whole"));
}

BackendPlacement::BackendPlacement(std::vector<Backend*> backends, int device_type)
    : backends_(std::move(backends)), device_type_(device_type) {
  for (Backend* b : backends_) {
    if (b->runs_loops()) loops_ = b->name();
    if (!b->runs_unasked()) last_resort_ = b->name();
  }
}

Backend* BackendPlacement::best(const Graph& graph, ValueId node, std::string* why) const {
  Backend* best = nullptr;
  double cost = 0;
  std::string yes, no;
  for (Backend* b : backends_) {
    Bid bid = b->bid(graph, node);
    if (bid.yes && (!best || bid.cost < cost))
      best = b, cost = bid.cost, yes = std::move(bid.why);
    else if (!bid.yes && why)
      no += (no.empty() ? "" : "; ") + std::string(b->name()) + ": " + bid.why;
  }
  if (no.empty()) no = "no back end for device type " + std::to_string(device_type_);
  if (why) *why = best ? yes : no;
  return best;
}

std::string BackendPlacement::keeps(const Graph& graph, ValueId node) const {
  const Op& row = op(graph.node(node).op);
  if (row.kind == Kind::input || row.view) return "";
  const Backend* b = best(graph, node);
  if (!b) return host_keeps(graph.node(node), device_type_) ? "none" : "";
  // Prefer a body to the slow evaluator.
  if (!b->runs_unasked() && row.has_body(graph, graph.node(node))) return "";
  return std::string(b->name());
}

std::string BackendPlacement::runs(const Graph& graph, ValueId node) const {
  const Backend* b = best(graph, node);
  return b ? std::string(b->name()) : "none";
}

bool BackendPlacement::joins(const Graph& graph, const Uses& uses, const std::string& backend,
                             std::span<const ValueId> members, ValueId node, std::string* why) const {
  const Backend* b = find_backend(backend);
  const Bid bid = b ? b->joins(graph, uses, members, node) : Bid{};
  *why = bid.why;
  return bid.yes;
}

bool BackendPlacement::reads(const Graph& graph, const std::string& backend, ValueId node,
                             ValueId operand) const {
  const Backend* b = find_backend(backend);
  return !b || b->reads(graph, node, operand);
}

ValueId BackendPlacement::legalize(Builder& b, Node&& node, const Graph& graph, ValueId old) const {
  const Kind kind = op(node.op).kind;
  const bool may = kind == Kind::contract || kind == Kind::composite || kind == Kind::opaque;
  const Backend* best_one = may ? best(graph, old) : nullptr;
  return best_one ? best_one->legalize(b, std::move(node)) : b.add(std::move(node));
}

}  // namespace tenon
