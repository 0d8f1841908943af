// See graph.h, and attr() of op.h. Tested by tests/unit/ir/ir_test.cc.
#include "src/ir/graph.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "src/ir/op.h"

namespace tenon {

uint64_t next_constant_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

bool operator==(const Scalar& a, const Scalar& b) {
  if (a.is_int != b.is_int) return false;
  if (a.is_int) return a.i == b.i;
  if (std::isnan(a.d) || std::isnan(b.d)) return std::isnan(a.d) && std::isnan(b.d);
  return std::bit_cast<uint64_t>(a.d) == std::bit_cast<uint64_t>(b.d);
}

std::string Graph::value_name(ValueId v) const {
  if (v == kNoValue) return "%?";
  if (v >= nodes.size() || nodes[v].name.empty()) return "%" + std::to_string(v);
  return "%" + nodes[v].name;
}

std::string Graph::print_type(const TensorType& t) const {
  return std::string(tenon::name(t.dtype)) + "[" + dims->print(t.shape) + "]";
}

size_t Graph::plain_outputs() const {
  size_t n = outputs.size();
  while (n > 0 && outputs[n - 1].updates) --n;
  return n;
}

bool Graph::has_donated_inputs() const { return std::ranges::any_of(inputs, &InputBinding::donated); }

Graph without_updates(Graph graph) {
  for (OutputBinding& o : graph.outputs) o.updates.reset();
  return graph;
}

std::vector<int> Graph::use_counts() const {
  std::vector<int> counts(nodes.size());
  for (const Node& n : nodes)
    for (ValueId v : n.inputs) ++counts[v];
  for (const OutputBinding& out : outputs) ++counts[out.value];
  return counts;
}

std::vector<std::vector<ValueId>> Graph::users() const {
  std::vector<std::vector<ValueId>> readers(nodes.size());
  for (ValueId v = 0; v < nodes.size(); ++v)
    for (ValueId operand : nodes[v].inputs)
      if (readers[operand].empty() || readers[operand].back() != v) readers[operand].push_back(v);
  return readers;
}

const AttrValue& attr(const Node& node, std::string_view name) {
  const std::vector<AttrSpec>& specs = op(node.op).attr_specs;
  for (size_t i = 0; i < specs.size() && i < node.attrs.size(); ++i)
    if (specs[i].name == name) return node.attrs[i];
  check_failed(__FILE__, __LINE__, "the row has the attribute",
               std::string(op(node.op).name) + " has no attribute " + std::string(name));
}

int64_t attr_int(const Node& node, std::string_view name) {
  Dim d = attr_as<Dim>(node, name);
  TENON_CHECK(d.is_const(),
              "attribute " + std::string(name) + " of " + std::string(op(node.op).name) + " is symbolic");
  return d.value();
}

std::vector<int64_t> attr_ints(const Node& node, std::string_view name) {
  std::vector<int64_t> out;
  for (Dim d : attr_as<Dims>(node, name)) {
    TENON_CHECK(d.is_const(),
                "attribute " + std::string(name) + " of " + std::string(op(node.op).name) + " is symbolic");
    out.push_back(d.value());
  }
  return out;
}

}  // namespace tenon
