// See cudnn.h. A step holds one choice of the library per alignment of its pointers; those for less than 16 bytes make do with the
// workspace of the one for 16.
#include "backends/cudnn/cudnn.h"

#include <algorithm>
#include <mutex>

#include "backends/cuda/by_alignment.h"
#include "backends/cuda/libraries.h"
#include "backends/cudnn/choice.h"
#include "backends/cudnn/problem.h"
#include "backends/cudnn/recipe.h"
#include "src/ir/group.h"
#include "src/ops/names.h"

namespace tenon {
namespace cudnn {
namespace {

constexpr int64_t kMostWorkspace = int64_t{512} << 20;
constexpr int64_t kWorkspaceAlignment = 256;

char* align_workspace(char* scratch) {
  const auto at = reinterpret_cast<uintptr_t>(scratch);
  return scratch + (kWorkspaceAlignment - at % kWorkspaceAlignment) % kWorkspaceAlignment;
}

class ConvolutionStep final : public Step {
 public:
  ConvolutionStep(Handles* handles, Work work) : handles_(handles), work_(std::move(work)) {}

  // Once, before the first run.
  Status choose() {
    TENON_ASSIGN(auto chosen, Choice::of(*handles_, work_.problem, choices_.kMost, kMostWorkspace, nullptr));
    workspace_ = chosen->workspace_bytes();
    choices_.keep_most(std::move(chosen));
    return {};
  }

  int64_t scratch_bytes() const override {
    return workspace_ > 0 ? workspace_ + kWorkspaceAlignment - kAlign : 0;  // scratch is aligned to kAlign
  }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this) + choices_.bytes(); }

  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    if (work_.empty) return {};
    const cuda::Current current(handles_->device);
    TENON_TRY(current.status());
    cuda::StreamTarget target(handles_->device, on.stream);
    Choice::Ready ready;
    return queue(buffers, scratch, target, ready);
  }
  int recordable() const override { return work_.empty ? 0 : 1; }
  Status record(void* const* buffers, char* scratch, Recording& recording) const override {
    if (work_.empty) return {};
    uint64_t words[Work::kTensors + 1] = {};
    for (int t = 0; t < Work::kTensors; ++t) words[t] = reinterpret_cast<uint64_t>(buffers[work_.buffers[t]]);
    if (workspace_ > 0) words[Work::kTensors] = reinterpret_cast<uint64_t>(scratch);
    Choice::Ready ready;  // until the capture has ended
    return cuda::add(recording, this, words,
                     [&](cuda::CallTarget& target) { return queue(buffers, scratch, target, ready); });
  }

 private:
  Status queue(void* const* buffers, char* scratch, cuda::CallTarget& target, Choice::Ready& ready) const {
    char* at[Work::kTensors];
    uintptr_t bits = 0;
    for (int t = 0; t < Work::kTensors; ++t) {
      at[t] = static_cast<char*>(buffers[work_.buffers[t]]) + work_.offsets[t];
      bits |= reinterpret_cast<uintptr_t>(at[t]);
    }
    if (work_.zeros) {
      TENON_ASSIGN(const cuda::CuStream stream, target.begin());
      return handles_->device.driver().cuMemsetD8Async(reinterpret_cast<cuda::CuAddress>(at[2]), 0,
                                                       static_cast<size_t>(work_.result_bytes), stream);
    }
    TENON_ASSIGN(const Choice* choice, choices_.at(bits, [&](int64_t alignment) {
      return Choice::of(*handles_, work_.problem, alignment, workspace_, &target);
    }));
    TENON_ASSIGN(ready, choice->ready(target));
    TENON_ASSIGN(const cuda::CuStream stream, target.begin());
    char* workspace = choice->workspace_bytes() > 0 ? align_workspace(scratch) : nullptr;
    return choice->run(ready, {at[0], at[1], at[2], workspace}, stream);
  }

  Handles* handles_;
  Work work_;
  int64_t workspace_ = 0;
  cuda::ByAlignment<Choice> choices_;
};

class Convolution final : public Executable {
 public:
  Handles* handles = nullptr;
  Recipe recipe;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    Work work = at_sizes(recipe, sizes);
    const bool chooses = !work.empty && !work.zeros;
    std::string text = chooses ? work.problem.text() : "";
    auto step = std::make_unique<ConvolutionStep>(handles, std::move(work));
    if (chooses) {
      TENON_TRY(step->choose());
      std::lock_guard lock(mutex_);
      latest_ = std::move(text);
    }
    return std::unique_ptr<Step>(std::move(step));
  }
  std::string describe() const override {
    std::lock_guard lock(mutex_);
    return latest_.empty() ? "cuDNN convolution" : "cuDNN convolution " + latest_;
  }

 private:
  mutable std::mutex mutex_;
  std::string latest_;  // the problem of the newest plan
};

class CudnnBackend final : public Backend {
 public:
  std::string_view name() const override { return "cudnn"; }
  int device_type() const override { return DeviceId::kCuda; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Node& node = graph.node(v);
    if (node.op != ops::convolution)
      return {false, 0, std::string(op(node.op).name) + " is no call of cuDNN"};
    if (!is_float(node.type.dtype))
      return {false, 0, "cuDNN is not used for " + std::string(tenon::name(node.type.dtype))};
    const auto recipe = make_recipe(graph, v, [&](ValueId u) { return bound_strides(graph, u); });
    if (!recipe.ok()) return {false, 0, recipe.status().message()};
    if (const auto driver = cuda::Driver::get(); !driver.ok()) return {false, 0, driver.status().message()};
    if (const auto library = Library::get(); !library.ok()) return {false, 0, library.status().message()};
    return {true, 0.5, "cuDNN convolution"};
  }

  ValueId arrange(Builder& b, Node node) const override {
    if (node.op != ops::convolution) return b.add(std::move(node));
    return cudnn::arrange(b, std::move(node), [&](ValueId u) { return bound_strides(b.graph(), u); });
  }

  bool reads(const Graph& graph, ValueId node, ValueId operand) const override {
    const Node& n = graph.node(node);
    for (int o = 0; o < 2; ++o)
      if (n.inputs[static_cast<size_t>(o)] == operand &&
          !reads_in_place(graph, n, o, [&](ValueId v) { return bound_strides(graph, v); }))
        return false;
    return true;
  }

  Bid absorb(const Graph&, const Uses&, std::span<const ValueId>, ValueId) const override {
    return {false, 0, "what follows a convolution of cuDNN runs as loops"};
  }

  Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) override {
    const Graph& g = context.graph;
    TENON_ASSIGN(Handles * handles, Handles::of(context.device.index));
    std::vector<std::unique_ptr<Executable>> built;
    for (const std::vector<ValueId>& members : groups) {
      const ValueId v = members.front();
      auto convolution = std::make_unique<Convolution>();
      convolution->handles = handles;
      convolution->inputs = inputs_of(g, members);
      convolution->outputs = {v};
      const StridesOf strides_of = [&](ValueId u) -> std::optional<Dims> {
        if (!context.materialised[u]) return std::nullopt;
        return context.layouts[u].strides;
      };
      auto recipe = make_recipe(g, v, strides_of);
      if (!recipe.ok()) return recipe.status().at("group of " + g.value_name(v));
      Recipe& r = convolution->recipe = std::move(*recipe);
      for (int o = 0; o < 2; ++o) {
        TENON_CHECK(reads_in_place(g, g.node(v), o, strides_of),
                    "an operand lies otherwise than it was stored");
        Operand& operand = o == 0 ? r.x : r.w;
        auto at = std::find(convolution->inputs.begin(), convolution->inputs.end(), operand.base);
        TENON_CHECK(at != convolution->inputs.end(), "the library reads a value its group does not list");
        operand.buffer = static_cast<int>(at - convolution->inputs.begin());
      }
      r.y.buffer = static_cast<int>(convolution->inputs.size());
      built.push_back(std::move(convolution));
    }
    return built;
  }

  std::string describe() const override {
    const Library* library = Library::opened();
    return library ? "cuDNN " + cuda::release_text(library->version())
                   : "cuDNN, opened with the first convolution";
  }
};

}  // namespace
}  // namespace cudnn

Backend& cudnn_backend() {
  static auto& backend = *new cudnn::CudnnBackend;  // never destroyed: threads may be at work at exit
  return backend;
}

}  // namespace tenon
