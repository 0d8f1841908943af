// See kernel.h.
#include "backends/inner/kernel.h"

#include <algorithm>

#include "src/ir/text.h"

namespace tenon::inner {
namespace {

class CallingThread final : public Parallel {
 public:
  int threads() const override { return 1; }
  void run(int64_t n, int, RangeFn fn, void* arg) override {
    if (n > 0) fn(arg, 0, 0, n);
  }
};

}  // namespace

Result<std::unique_ptr<Kernel>> Kernel::make(std::string_view text, const Allocator& allocator) {
  auto made = std::make_unique<Kernel>();
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  made->graph_ = std::move(*graph);
  const Graph& g = made->graph_;
  std::vector<bool> stored;
  std::vector<ValueId> members;
  for (ValueId v = 0; v < g.nodes.size(); ++v) {
    made->layouts_.push_back({stored_strides(g, v), false});
    for (const OutputBinding& out : g.outputs)
      if (out.value == v) made->layouts_.back().strides = *out.strides;
    stored.push_back(!is_literal(g, v));
    const Kind kind = op(g.node(v).op).kind;
    if (kind == Kind::map || kind == Kind::reduce) members.push_back(v);
  }
  BuildContext context{g, made->layouts_, stored, allocator};
  context.for_short_rows = false;
  TENON_ASSIGN(auto built, find_backend("cpu")->build(context, std::span(&members, 1)));
  made->kernel_ = std::move(built[0]);
  // run() gets the buffers in the order of the graph.
  const std::vector<ValueId>&inputs = made->kernel_->inputs, &outputs = made->kernel_->outputs;
  TENON_CHECK(std::is_sorted(inputs.begin(), inputs.end()), "a kernel has its parameters in another order");
  TENON_CHECK(std::equal(outputs.begin(), outputs.end(), g.outputs.begin(), g.outputs.end(),
                         [](ValueId v, const OutputBinding& out) { return v == out.value; }),
              "a kernel has its results in another order");
  return made;
}

Result<std::unique_ptr<Step>> Kernel::prepare(Values values) const {
  Sizes sizes{graph_.dims.get(), std::vector<int64_t>(static_cast<size_t>(graph_.dims->symbol_count()), 1)};
  for (int i = 0; i < graph_.dims->symbol_count(); ++i)
    for (const auto& [name, value] : values)
      if (graph_.dims->find_symbol(name) == graph_.dims->symbol_at(i))
        sizes.symbols[static_cast<size_t>(i)] = value;
  return kernel_->prepare(sizes);
}

Status run(const Step& step, void* const* buffers, char* scratch) {
  CallingThread alone;
  return step.run(buffers, scratch, {alone});
}

}  // namespace tenon::inner
