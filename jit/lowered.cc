// See lowered.h.
#include "jit/lowered.h"

#include <algorithm>

#include "jit/schedule.h"

namespace tenon::jit {

Status has_loops(const Graph& graph, ValueId v) {
  const Op& row = op(graph.node(v).op);
  // Kernels hold 16-bit floats as f32: they have no bits to show.
  if (row.name == "bitcast")
    for (DType t : {graph.type(v).dtype, graph.type(graph.node(v).inputs[0]).dtype})
      if (t != compute_type(t))
        return unsupported("the bits of a 16-bit float are not those of a kernel's value");
  if (row.kind == Kind::map || row.kind == Kind::reduce || row.kind == Kind::scan || row.kind == Kind::move ||
      row.kind == Kind::input)
    return {};
  return unsupported(std::string(row.name) + " has no loops of its own");
}

Status covers(const Graph& graph, const Uses& uses, std::span<const ValueId> members, Target target) {
  constexpr size_t kMostStreams = 24;
  if (members.size() > kMaxGroupNodes) return unsupported("the group is full");
  const std::vector<ValueId> outputs = outputs_of(graph, uses, members);
  if (outputs.size() + inputs_of(graph, members).size() > kMostStreams)
    return unsupported("more than 24 streams");
  auto strides = [&](ValueId v) -> std::optional<Dims> {
    const bool member = std::binary_search(members.begin(), members.end(), v);
    if (!member && (op(graph.node(v).op).view || is_literal(graph, v))) return std::nullopt;
    return stored_strides(graph, v);
  };
  return lower({graph, members, outputs, strides, target}).status();
}

Status may_join(const Graph& graph, const Uses& uses, std::span<const ValueId> members, ValueId v,
                Target target) {
  TENON_TRY(has_loops(graph, v));
  std::vector<ValueId> all(members.begin(), members.end());
  all.insert(std::lower_bound(all.begin(), all.end(), v), v);
  return covers(graph, uses, all, target);
}

std::vector<std::vector<int>> positions(std::span<const LoweredKernel> kernels,
                                        std::span<const ValueId> inputs, std::span<const ValueId> outputs) {
  auto position = [&](ValueId v) {
    if (v >= kTempBuffer) return -1;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] == v) return static_cast<int>(i);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] == v) return static_cast<int>(inputs.size() + i);
    TENON_CHECK(false, "a kernel reads a value its group does not list");
    return -1;
  };
  std::vector<std::vector<int>> result;
  for (const LoweredKernel& k : kernels) {
    std::vector<int>& list = result.emplace_back();
    for (ValueId v : k.buffers) list.push_back(position(v));
  }
  return result;
}

std::vector<std::pair<int, int>> inplace(std::span<const LoweredKernel> kernels,
                                         std::span<const ValueId> inputs, std::span<const ValueId> outputs) {
  std::vector<std::pair<int, int>> pairs;
  if (outputs.size() != 1) return pairs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool safe = std::all_of(kernels.begin(), kernels.end(), [&](const LoweredKernel& k) {
      return !std::count(k.buffers.begin(), k.buffers.end(), inputs[i]) ||
             std::count(k.inplace.begin(), k.inplace.end(), inputs[i]);
    });
    if (safe) pairs.push_back({0, static_cast<int>(i)});
  }
  return pairs;
}

}  // namespace tenon::jit
