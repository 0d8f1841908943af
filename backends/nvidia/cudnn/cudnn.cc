// See cudnn.h.
#include "backends/nvidia/cudnn/cudnn.h"

#include <functional>

#include "backends/library/call.h"
#include "backends/nvidia/cudnn/algorithm.h"
#include "backends/nvidia/cudnn/attention.h"
#include "backends/nvidia/cudnn/convolution.h"
#include "backends/nvidia/device/libraries.h"
#include "backends/nvidia/device/library_step.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace cudnn {
namespace {

constexpr int64_t kMostWorkspace = int64_t{512} << 20;

class CallStep final : public cuda::LibraryStep<Algorithm, Algorithm::Ready> {
 public:
  CallStep(Handles* handles, PlacedProblem placed)
      : LibraryStep(handles->device, {placed.tensors.begin(), placed.tensors.end()}, 0),
        handles_(handles),
        placed_(std::move(placed)),
        numbers_(placed_.problem->numbers()) {}

  // Chooses the algorithm for aligned pointers. Called once, before the first run.
  Status choose() {
    TENON_ASSIGN(auto chosen,
                 Algorithm::of(*handles_, placed_.problem, kBestAlignment, kMostWorkspace, nullptr));
    keep(std::move(chosen));
    return {};
  }
  int recordable() const override { return placed_.empty ? 0 : 1; }

 private:
  Status queue(Addresses at, cuda::CallTarget& target, Algorithm::Ready& ready) const override {
    const size_t count = placed_.tensors.size();
    if (placed_.zeros) {
      TENON_ASSIGN(const cuda::CuStream stream, target.begin());
      return clear(at.tensors[count - 1], placed_.tensors.back().bytes(), stream);
    }
    TENON_ASSIGN(const Algorithm* algorithm,
                 this->algorithm(at, 0, [&](int64_t alignment, int64_t workspace) {
                   return Algorithm::of(*handles_, placed_.problem, alignment, workspace, &target);
                 }));
    TENON_ASSIGN(ready, algorithm->ready(target));  // leases the handle until the capture has ended
    TENON_ASSIGN(const cuda::CuStream stream, target.begin());
    char* workspace = algorithm->workspace_bytes() > 0 ? at.workspace : nullptr;
    return algorithm->run(ready, {std::span(at.tensors).first(count), numbers_, workspace}, stream);
  }

  Handles* handles_;
  PlacedProblem placed_;
  std::vector<float> numbers_;
};

class Call final : public library::Call {
 public:
  Handles* handles = nullptr;
  std::function<PlacedProblem(const Sizes&)> at_sizes;  // the spec's

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    PlacedProblem placed = at_sizes(sizes);
    const auto problem = placed.chooses() ? placed.problem : nullptr;
    auto step = std::make_unique<CallStep>(handles, std::move(placed));
    if (problem) {
      TENON_TRY(step->choose());
      planned(name + " " + problem->text());
    }
    return std::unique_ptr<Step>(std::move(step));
  }
};

class CudnnBackend final : public Backend {
 public:
  std::string_view name() const override { return "cudnn"; }
  int device_type() const override { return DeviceId::kCuda; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Node& node = graph.node(v);
    const std::string called(op(node.op).name);
    Status may = unsupported(called + " is no call of cuDNN");
    if (node.op == ops::convolution && !is_float(node.type.dtype))
      may = unsupported("cuDNN is not used for " + std::string(tenon::name(node.type.dtype)));
    else if (node.op == ops::convolution)
      may = make_spec(graph, v, [&](ValueId u) { return bound_strides(graph, u); }).status();
    else if (node.op == ops::attention)
      may = takes_attention(graph, node);
    if (may.ok()) may = cuda::check_present<Library>();
    return Bid::at(0.5, "cuDNN " + called, may);
  }

  ValueId legalize(Builder& b, Node node) const override {
    if (node.op == ops::attention) return arrange_attention(b, std::move(node));
    return cudnn::legalize(b, std::move(node), [&](ValueId u) { return bound_strides(b.graph(), u); });
  }

  bool reads(const Graph& graph, ValueId node, ValueId operand) const override {
    const Node& n = graph.node(node);
    const StridesOf strides_of = [&](ValueId v) { return bound_strides(graph, v); };
    for (int o = 0; o < static_cast<int>(n.inputs.size()); ++o)
      if (n.inputs[static_cast<size_t>(o)] == operand && !reads_in_place(graph, n, o, strides_of))
        return false;
    return true;
  }

  Bid joins(const Graph&, const Uses&, std::span<const ValueId>, ValueId) const override {
    return {false, 0, "what follows a call of cuDNN runs as loops"};
  }

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const Graph& g = context.graph;
    const ValueId v = members.front();
    const Node& node = g.node(v);
    const StridesOf strides_of = [&](ValueId u) { return context.strides_of(u); };
    auto call = std::make_unique<Call>();
    TENON_ASSIGN(call->handles, Handles::of(context.device.index));
    call->name = "cuDNN " + std::string(op(node.op).name);
    const auto bind = [&](const std::vector<Operand*>& operands, Operand& result) {
      for (int o = 0; o < static_cast<int>(operands.size()); ++o)
        TENON_CHECK(reads_in_place(g, node, o, strides_of), "an operand lies otherwise than it was stored");
      call->bind(g, members, operands, result);
    };
    if (node.op == ops::attention) {
      TENON_ASSIGN(AttentionSpec r, attention_spec(g, v, strides_of));
      std::vector<Operand*> operands{&r.q, &r.k, &r.v};
      if (r.mask) operands.push_back(&*r.mask);
      bind(operands, r.y);
      call->at_sizes = [r = std::move(r)](const Sizes& sizes) { return cudnn::at_sizes(r, sizes); };
    } else {
      TENON_ASSIGN(ConvolutionSpec r, make_spec(g, v, strides_of));
      bind({&r.x, &r.w}, r.y);
      call->at_sizes = [r = std::move(r)](const Sizes& sizes) { return cudnn::at_sizes(r, sizes); };
    }
    return std::unique_ptr<Executable>(std::move(call));
  }

  std::string describe() const override {
    const Library* library = Library::opened();
    return library ? "cuDNN " + cuda::release_text(library->version()) : "cuDNN, opened with its first call";
  }

 private:
  static bool reads_in_place(const Graph& graph, const Node& node, int operand, const StridesOf& strides_of) {
    return node.op == ops::attention ? reads_attention(graph, node, operand, strides_of)
                                     : cudnn::reads_in_place(graph, node, operand, strides_of);
  }
};

}  // namespace
}  // namespace cudnn

Backend& cudnn_backend() { return immortal<cudnn::CudnnBackend>(); }

}  // namespace tenon
