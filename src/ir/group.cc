// See group.h. Tested by tests/unit/ir/ir_test.cc.
#include "src/ir/group.h"

#include <algorithm>
#include <set>

namespace tenon {

Dims dense_strides(DimTable& dims, const Dims& shape) {
  Dims strides(shape.size(), Dim(1));
  // As in PyTorch, the strides of an empty tensor are not 0, so that every iteration of a loop along an axis
  // has its own address.
  for (size_t i = strides.size(); i-- > 1;)
    strides[i - 1] = dims.mul(strides[i], shape[i] == Dim(0) ? Dim(1) : shape[i]);
  return strides;
}

std::optional<Dims> output_strides(const Graph& graph, const OutputBinding& output) {
  const Dims& shape = graph.type(output.value).shape;
  return std::find(shape.begin(), shape.end(), Dim(0)) == shape.end() ? output.strides : std::nullopt;
}

Dims stored_strides(const Graph& graph, ValueId v) {
  for (const InputBinding& in : graph.inputs)
    if (in.value == v && in.strides) return *in.strides;
  for (const OutputBinding& out : graph.outputs)
    if (out.value == v)
      if (auto strides = output_strides(graph, out)) return *strides;
  return dense_strides(*graph.dims, graph.type(v).shape);
}

Uses::Uses(const Graph& graph) : users_(graph.users()), is_output_(graph.nodes.size(), false) {
  for (const OutputBinding& o : graph.outputs) is_output_[o.value] = true;
}

std::vector<ValueId> outputs_of(const Graph& graph, const Uses& uses, std::span<const ValueId> members) {
  auto inside = [&](ValueId v) { return std::binary_search(members.begin(), members.end(), v); };
  std::vector<ValueId> result;
  for (ValueId m : members) {
    std::vector<ValueId> work{m};
    bool leaves = false;
    while (!work.empty() && !leaves) {
      const ValueId v = work.back();
      work.pop_back();
      leaves = uses.is_output(v);
      for (ValueId u : uses.users(v)) {
        if (inside(u)) continue;
        if (is_inlined(graph, u))
          work.push_back(u);
        else
          leaves = true;
      }
    }
    if (leaves) result.push_back(m);
  }
  return result;
}

std::vector<ValueId> inputs_of(const Graph& graph, std::span<const ValueId> members, size_t* walked) {
  std::set<ValueId> result;
  std::vector<ValueId> work(members.begin(), members.end());
  std::set<ValueId> seen;
  auto inside = [&](ValueId v) { return std::binary_search(members.begin(), members.end(), v); };
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    if (!seen.insert(v).second) continue;
    for (ValueId i : graph.node(v).inputs) {
      if (inside(i)) continue;
      if (is_inlined(graph, i))
        work.push_back(i);
      else
        result.insert(i);
    }
  }
  if (walked) *walked = seen.size();
  return {result.begin(), result.end()};
}

std::vector<std::vector<ValueId>> members_of_groups(const Graph& graph) {
  std::vector<std::vector<ValueId>> members(graph.groups.size());
  for (ValueId v = 0; v < graph.nodes.size(); ++v)
    if (graph.node(v).group >= 0) members[graph.node(v).group].push_back(v);
  return members;
}

}  // namespace tenon
