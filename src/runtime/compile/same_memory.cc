// See same_memory.h.
#include "src/runtime/compile/same_memory.h"

#include <algorithm>
#include <set>

#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/view.h"

namespace tenon {
namespace {

class NoStep final : public Step {
 public:
  Status run(void* const*, char*, const RunOn&) const override { return {}; }
  int recordable() const override { return 0; }
  int64_t scratch_bytes() const override { return 0; }
  int64_t bytes() const override { return sizeof *this; }
};

class NoWork final : public Executable {
 public:
  NoWork(const Graph& graph, ValueId from, ValueId output) {
    inputs = {from};
    outputs = {output};
    text_ = "nothing: " + graph.value_name(from) + " is in the memory of " + graph.value_name(output);
  }
  Result<std::unique_ptr<Step>> prepare(const Sizes&) override {
    return std::unique_ptr<Step>(std::make_unique<NoStep>());
  }
  bool may_fail() const override { return false; }
  std::string describe() const override { return text_; }

 private:
  std::string text_;
};

// Whether strides put the elements of a shape in the same places.
bool same_places(const Dims& shape, const Dims& a, const Dims& b) {
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] != Dim(1) && a[axis] != b[axis]) return false;
  return true;
}

// The intermediate whose memory an output can be; kNoValue: there is none.
ValueId same_as(const Graph& g, const OutputBinding& output) {
  const Node& copy = g.node(output.value);
  if (output.updates || copy.op != ops::reshape) return kNoValue;
  ValueId from = copy.inputs[0];
  while (is_inlined(g, from) && op(g.node(from).op).view) from = g.node(from).inputs[0];
  if (g.node(from).group < 0) return kNoValue;
  DimTable& dims = *g.dims;
  if (dims.product(g.type(from).shape) != dims.product(copy.type.shape)) return kNoValue;
  const Dims dense = dense_strides(dims, g.type(from).shape);
  const auto view =
      view_of(g, output.value, [&](ValueId v) { return v == from ? std::optional(dense) : std::nullopt; });
  if (!view || view->offset != Dim(0)) return kNoValue;
  const auto wanted = output_strides(g, output);
  const bool same =
      same_places(copy.type.shape, view->strides, wanted ? *wanted : dense_strides(dims, copy.type.shape));
  return same ? from : kNoValue;
}

}  // namespace

void separate_copies(Graph& g) {
  const Uses uses(g);
  const std::vector<std::vector<ValueId>> members = members_of_groups(g);
  std::set<ValueId> taken;
  for (const OutputBinding& output : g.outputs) {
    const int group = g.node(output.value).group;
    if (group < 0 || g.groups[group].again || !uses.users(output.value).empty()) continue;
    const ValueId from = same_as(g, output);
    if (from == kNoValue || g.node(from).group != group || uses.is_output(from)) continue;
    const std::vector<ValueId> stored = outputs_of(g, uses, members[group]);
    if (!std::ranges::binary_search(stored, from) || !taken.insert(from).second) continue;
    g.nodes[output.value].group = static_cast<int>(g.groups.size());
    g.groups.push_back({g.groups[group].backend, "its operand is in the output's memory"});
  }
}

std::vector<std::unique_ptr<Executable>> find_same_memory(const std::vector<std::vector<ValueId>>& members,
                                                          PlanSource& source) {
  const Graph& g = *source.graph;
  std::vector<std::unique_ptr<Executable>> found(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].size() != 1 || g.groups[i].again) continue;
    const ValueId output = members[i][0];
    const int o = source.output_of[output];
    const ValueId from = o < 0 ? kNoValue : same_as(g, g.outputs[o]);
    if (from == kNoValue || source.output_of[from] >= 0) continue;
    source.output_of[from] = o;
    found[i] = std::make_unique<NoWork>(g, from, output);
  }
  return found;
}

void share_outputs(std::span<const Layout> layouts, PlanSource& source) {
  const Graph& g = *source.graph;
  std::vector<int> readers(g.nodes.size(), 0);
  std::vector<bool> made(g.nodes.size(), false);
  for (const auto& e : source.executables) {
    for (ValueId v : e->inputs) ++readers[v];
    for (ValueId v : e->outputs) made[v] = true;
  }
  for (const OutputBinding& o : g.outputs)
    ++readers[o.value];  // some are intermediates that are copied at the end
  for (size_t s = source.executables.size(); s-- > 0;) {
    const Executable& e = *source.executables[s];
    std::vector<bool> given(e.outputs.size(), false);
    for (auto [out, operand] : e.inplace) {
      const ValueId to = e.outputs[out], from = e.inputs[operand];
      const int o = source.output_of[to];
      if (o < 0 || g.outputs[o].updates || given[out] || !made[from] || readers[from] > 1 ||
          source.output_of[from] >= 0 || !layouts[to].dense || g.type(from) != g.type(to))
        continue;
      source.output_of[from] = o;
      given[out] = true;
    }
  }
}

}  // namespace tenon
