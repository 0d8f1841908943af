// See same_memory.h.
#include "src/runtime/compile/same_memory.h"

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
ValueId same_as(const Graph& g, ValueId output, std::span<const Layout> layouts, const PlanSource& source) {
  const int o = source.output_of[output];
  if (o < 0 || g.outputs[o].updates || g.node(output).op != ops::reshape) return kNoValue;
  ValueId from = g.node(output).inputs[0];
  while (is_inlined(g, from) && op(g.node(from).op).view) from = g.node(from).inputs[0];
  if (g.node(from).group < 0 || source.output_of[from] >= 0) return kNoValue;
  DimTable& dims = *g.dims;
  if (dims.product(g.type(from).shape) != dims.product(g.type(output).shape)) return kNoValue;
  const auto view = view_of(g, output, [&](ValueId v) {
    return v == from ? std::optional(dense_strides(dims, g.type(v).shape)) : std::nullopt;
  });
  if (!view || view->offset != Dim(0)) return kNoValue;
  return same_places(g.type(output).shape, view->strides, layouts[output].strides) ? from : kNoValue;
}

}  // namespace

std::vector<std::unique_ptr<Executable>> find_same_memory(const std::vector<std::vector<ValueId>>& members,
                                                          std::span<const Layout> layouts,
                                                          PlanSource& source) {
  const Graph& g = *source.graph;
  std::vector<std::unique_ptr<Executable>> found(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].size() != 1 || g.groups[i].again) continue;
    const ValueId output = members[i][0], from = same_as(g, output, layouts, source);
    if (from == kNoValue) continue;
    source.output_of[from] = source.output_of[output];
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
