// See shape_guards.h.
#include "src/runtime/compile/shape_guards.h"

#include <algorithm>
#include <unordered_map>

#include "src/ir/builder.h"
#include "src/ir/op.h"
#include "src/ir/text.h"
#include "src/ops/eval/eval.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"

namespace tenon {
namespace {

bool constant(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.is_const(); });
}

// Whether a node whose rule holds for symbols is valid for all values of the symbols at which no size in
// `needs` is negative. Adds to `needs`. Assumes the ranges of the symbols.
bool closed(const Graph& g, DimTable& dims, const Node& node, Dims& needs) {
  const ShapeRule rule = op(node.op).shape;
  auto attr = [&](std::string_view name) { return attr_as<Dim>(node, name); };
  auto list = [&](std::string_view name) -> const Dims& { return attr_as<Dims>(node, name); };
  bool symbolic = !constant(node.type.shape);
  for (ValueId i : node.inputs) symbolic = symbolic || !constant(g.type(i).shape);
  for (const AttrValue& a : node.attrs) {
    if (auto d = std::get_if<Dim>(&a)) symbolic = symbolic || !d->is_const();
    if (auto d = std::get_if<Dims>(&a)) symbolic = symbolic || !constant(*d);
  }
  if (!symbolic) return true;
  auto need = [&](Dim d) {
    const auto low = dims.lower_bound(d);
    if (!low || *low < 0) needs.push_back(d);
  };
  for (Dim d : node.type.shape) need(d);
  // Equal sizes stay equal, and 1 stays 1.
  for (ShapeRule same :
       {&shapes::same, &shapes::same_axis, &shapes::gelu, &shapes::broadcast, &shapes::scalar,
        &shapes::reduce, &shapes::transpose, &shapes::flip, &shapes::concat, &shapes::matmul, &shapes::linear,
        &shapes::attention, &shapes::attention_gradient, &shapes::expand, &shapes::from_shape})
    if (rule == same) return true;
  if (rule == &shapes::reduce_axis || rule == &shapes::gather || rule == &shapes::take_along) {
    const Dims& shape = g.type(node.inputs[0]).shape;
    if (shape.empty()) return true;
    int64_t axis = attr("axis").value();
    if (axis < 0) axis += static_cast<int64_t>(shape.size());
    need(dims.sub(shape[static_cast<size_t>(axis)], Dim(1)));
    return true;
  }
  if (rule == &shapes::slice) {
    const Dims& shape = g.type(node.inputs[0]).shape;
    int64_t axis = attr("axis").value();
    if (axis < 0) axis += static_cast<int64_t>(shape.size());
    const Dim start = attr("start"), end = attr("end"), size = shape[static_cast<size_t>(axis)];
    need(start), need(dims.sub(end, start)), need(dims.sub(size, end));
    return true;
  }
  if (rule == &shapes::reshape) {
    const Dims& out = list("shape");
    return std::find(out.begin(), out.end(), Dim(-1)) == out.end() &&
           dims.product(out) == dims.product(g.type(node.inputs[0]).shape);
  }
  return false;
}

size_t hash_of(const Graph& g, const Node& node) {
  size_t h = node.op;
  auto mix = [&](Dim d) { h = (h ^ static_cast<size_t>(d.bits)) * 0x9E3779B97F4A7C15; };
  for (ValueId i : node.inputs)
    for (Dim d : g.type(i).shape) mix(d);
  for (const AttrValue& a : node.attrs) {
    if (auto d = std::get_if<Dim>(&a)) mix(*d);
    if (auto d = std::get_if<Dims>(&a))
      for (Dim x : *d) mix(x);
  }
  return h;
}

bool alike(const Graph& g, const Node& a, const Node& b) {
  if (a.op != b.op || a.inputs.size() != b.inputs.size()) return false;
  if (!std::equal(a.attrs.begin(), a.attrs.end(), b.attrs.begin(), b.attrs.end(), same_attr)) return false;
  for (size_t i = 0; i < a.inputs.size(); ++i)
    if (!(g.type(a.inputs[i]) == g.type(b.inputs[i]))) return false;
  return true;
}

}  // namespace

ShapeGuards::ShapeGuards(const Graph& graph) {
  open_.name = graph.name;
  open_.dims = std::make_shared<DimTable>(*graph.dims);  // other threads may use the graph
  assumptions_ = assumptions_of(graph);
  Builder b(open_);
  std::unordered_multimap<size_t, const Node*> asked;
  for (const Node& given : graph.nodes) {
    if (given.op == ops::input) continue;
    Dims needs;
    const bool cheap = closed(graph, *open_.dims, given, needs);
    if (cheap && needs.empty()) continue;
    if (cheap)
      for (Dim d : needs)
        if (std::find(needs_.begin(), needs_.end(), d) == needs_.end()) needs_.push_back(d);
    ask_ = ask_ || !cheap;
    const size_t hash = hash_of(graph, given);
    auto [from, to] = asked.equal_range(hash);
    if (std::any_of(from, to, [&](const auto& other) { return alike(graph, given, *other.second); }))
      continue;
    asked.emplace(hash, &given);
    Node node = given;
    node.group = -1;
    for (ValueId& i : node.inputs) {
      auto input = b.try_input("", graph.type(i));
      TENON_CHECK(input.ok(), input.status().message());
      i = *input;
    }
    b.add(std::move(node));
    ++count_;
  }
}

Status ShapeGuards::check(std::span<const int64_t> symbols) const {
  TENON_TRY(check_assumptions(open_, assumptions_, symbols));
  auto holds = [&](Dim d) {
    const auto n = open_.dims->eval(d, symbols);
    return n && *n >= 0;
  };
  if (!ask_ && std::all_of(needs_.begin(), needs_.end(), holds)) return {};
  return at_sizes(open_, symbols).status();
}

}  // namespace tenon
