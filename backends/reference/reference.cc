// See reference.h. A group is one node. The node and the views and literals that it reads through become a small graph, which
// the evaluator (src/ops/eval/eval.h) runs at the plan's sizes.
#include "backends/reference/reference.h"

#include <map>

#include "src/base/threads/immortal.h"
#include "src/ir/builder.h"
#include "src/ir/group.h"
#include "src/ops/eval/eval.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace {

class EvaluateStep final : public Step {
 public:
  Graph graph;  // at concrete sizes
  std::vector<std::vector<int64_t>> input_strides;
  std::vector<int64_t> output_strides;

  int64_t scratch_bytes() const override { return 0; }
  int64_t bytes() const override {
    constexpr size_t kNode = 512, kAxis = sizeof(int64_t);  // kNode: a node with its attributes, roughly
    size_t sum = sizeof *this + graph.nodes.size() * kNode + output_strides.size() * kAxis;
    for (const auto& s : input_strides) sum += sizeof s + s.size() * kAxis;
    return static_cast<int64_t>(sum);
  }
  Status run(void* const* buffers, char*, const RunOn&) const override {
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const TensorType& type = graph.type(graph.inputs[i].value);
      std::vector<int64_t> shape;
      for (Dim d : type.shape) shape.push_back(d.value());
      HostTensor t(type.dtype, shape);
      copy_strided(static_cast<const char*>(buffers[i]), input_strides[i],
                   reinterpret_cast<char*>(t.bytes.data()), dense_strides(shape), shape, size_of(type.dtype));
      inputs.push_back(std::move(t));
    }
    TENON_ASSIGN(const std::vector<HostTensor> outputs, evaluate(graph, inputs));
    const HostTensor& y = outputs[0];
    copy_strided(reinterpret_cast<const char*>(y.bytes.data()), dense_strides(y.shape),
                 static_cast<char*>(buffers[graph.inputs.size()]), output_strides, y.shape, size_of(y.dtype));
    return {};
  }
};

class EvaluateNode final : public Executable {
 public:
  Graph graph;
  std::vector<Dims> input_strides;
  Dims output_strides;
  std::string name;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<EvaluateStep>();
    TENON_ASSIGN(step->graph, at_sizes(graph, sizes.symbols));
    for (const Dims& s : input_strides) step->input_strides.push_back(sizes.eval(s));
    step->output_strides = sizes.eval(output_strides);
    return std::unique_ptr<Step>(std::move(step));
  }
  std::string describe() const override { return name + ", evaluated element by element"; }
};

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  bool runs_unasked() const override { return false; }
  Bid bid(const Graph& graph, ValueId v) const override {
    const Op& row = op(graph.node(v).op);
    if (row.kind == Kind::opaque && graph.node(v).op >= ops::built_in_count)
      return {false, 0, std::string(row.name) + " has no meaning here"};
    return {true, 1e6, "evaluated element by element"};
  }
  Bid joins(const Graph&, const Uses&, std::span<const ValueId>, ValueId) const override {
    return {false, 0, "the evaluator takes one node at a time"};
  }

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const Graph& g = context.graph;
    auto e = std::make_unique<EvaluateNode>();
    const ValueId target = members.back();
    e->name = std::string(op(g.node(target).op).name);
    e->inputs = inputs_of(g, members);
    e->outputs = {target};
    e->graph.name = e->name;
    e->graph.dims = g.dims;
    Builder b(e->graph);
    std::map<ValueId, ValueId> map;
    for (ValueId v : e->inputs) {
      TENON_ASSIGN(map[v], b.try_input(g.node(v).name, g.type(v)));
      e->input_strides.push_back(context.layouts[v].strides);
    }
    TENON_TRY(copy_into(g, target, b, map));
    e->graph.outputs.push_back({map[target], std::nullopt});
    e->output_strides = context.layouts[target].strides;
    return std::unique_ptr<Executable>(std::move(e));
  }
  std::string describe() const override { return "evaluator in double"; }

 private:
  static Status copy_into(const Graph& g, ValueId v, Builder& b, std::map<ValueId, ValueId>& map) {
    if (map.count(v)) return {};
    Node node = g.node(v);
    for (ValueId& i : node.inputs) {
      TENON_TRY(copy_into(g, i, b, map));
      i = map[i];
    }
    node.group = -1;
    TENON_ASSIGN(map[v], b.try_add(std::move(node)));
    return {};
  }
};

}  // namespace

Backend& reference_backend() { return immortal<ReferenceBackend>(); }

}  // namespace tenon
