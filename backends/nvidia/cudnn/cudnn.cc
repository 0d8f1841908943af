// See cudnn.h. A step holds one algorithm of the library per alignment of its pointers. The algorithms for less than 16 bytes are
// chosen to need no more workspace than the one for 16.
#include "backends/nvidia/cudnn/cudnn.h"

#include <algorithm>
#include <functional>
#include <mutex>

#include "backends/nvidia/cudnn/algorithm.h"
#include "backends/nvidia/cudnn/attention.h"
#include "backends/nvidia/cudnn/convolution.h"
#include "backends/nvidia/device/by_alignment.h"
#include "backends/nvidia/device/libraries.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace cudnn {
namespace {

constexpr int64_t kMostWorkspace = int64_t{512} << 20;
constexpr int64_t kWorkspaceAlignment = 256;

char* align_workspace(char* scratch) {
  const auto at = reinterpret_cast<uintptr_t>(scratch);
  return scratch + (kWorkspaceAlignment - at % kWorkspaceAlignment) % kWorkspaceAlignment;
}

class CallStep final : public Step {
 public:
  CallStep(Handles* handles, Work work)
      : handles_(handles), work_(std::move(work)), numbers_(work_.problem->numbers()) {}

  // Chooses the algorithm for aligned pointers. Called once, before the first run.
  Status choose() {
    TENON_ASSIGN(auto chosen,
                 Algorithm::of(*handles_, work_.problem, algorithms_.kMost, kMostWorkspace, nullptr));
    workspace_ = chosen->workspace_bytes();
    algorithms_.keep_most(std::move(chosen));
    return {};
  }

  int64_t scratch_bytes() const override {
    return workspace_ > 0 ? workspace_ + kWorkspaceAlignment - kAlign : 0;  // scratch is aligned to kAlign
  }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this) + algorithms_.bytes(); }

  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    if (work_.empty) return {};
    const cuda::Current current(handles_->device);
    TENON_TRY(current.status());
    cuda::StreamTarget target(handles_->device, on.stream);
    Algorithm::Ready ready;
    return queue(buffers, scratch, target, ready);
  }
  int recordable() const override { return work_.empty ? 0 : 1; }
  Status record(void* const* buffers, char* scratch, Recording& recording) const override {
    if (work_.empty) return {};
    uint64_t words[Work::kMost + 1] = {};
    for (size_t t = 0; t < work_.tensors.size(); ++t)
      words[t] = reinterpret_cast<uint64_t>(buffers[work_.tensors[t].buffer]);
    if (workspace_ > 0) words[Work::kMost] = reinterpret_cast<uint64_t>(scratch);
    Algorithm::Ready ready;  // leases the handle until the capture has ended
    return cuda::add(recording, this, words,
                     [&](cuda::CallTarget& target) { return queue(buffers, scratch, target, ready); });
  }

 private:
  Status queue(void* const* buffers, char* scratch, cuda::CallTarget& target, Algorithm::Ready& ready) const {
    void* at[Work::kMost];
    uintptr_t bits = 0;
    const size_t count = work_.tensors.size();
    for (size_t t = 0; t < count; ++t) {
      at[t] = static_cast<char*>(buffers[work_.tensors[t].buffer]) + work_.tensors[t].offset;
      bits |= reinterpret_cast<uintptr_t>(at[t]);
    }
    if (work_.zeros) {
      TENON_ASSIGN(const cuda::CuStream stream, target.begin());
      return handles_->device.driver().cuMemsetD8Async(reinterpret_cast<cuda::CuAddress>(at[count - 1]), 0,
                                                       static_cast<size_t>(work_.result_bytes), stream);
    }
    TENON_ASSIGN(const Algorithm* algorithm, algorithms_.at(bits, [&](int64_t alignment) {
      return Algorithm::of(*handles_, work_.problem, alignment, workspace_, &target);
    }));
    TENON_ASSIGN(ready, algorithm->ready(target));
    TENON_ASSIGN(const cuda::CuStream stream, target.begin());
    char* workspace = algorithm->workspace_bytes() > 0 ? align_workspace(scratch) : nullptr;
    return algorithm->run(ready, {std::span(at, count), numbers_, workspace}, stream);
  }

  Handles* handles_;
  Work work_;
  std::vector<float> numbers_;
  int64_t workspace_ = 0;
  cuda::ByAlignment<Algorithm> algorithms_;
};

class Call final : public Executable {
 public:
  Handles* handles = nullptr;
  std::string name;  // "cuDNN convolution"
  std::function<Work(const Sizes&)> work;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    Work at = work(sizes);
    const bool chooses = at.chooses();
    std::string text = chooses ? at.problem->text() : "";
    auto step = std::make_unique<CallStep>(handles, std::move(at));
    if (chooses) {
      TENON_TRY(step->choose());
      std::lock_guard lock(mutex_);
      latest_ = std::move(text);
    }
    return std::unique_ptr<Step>(std::move(step));
  }
  std::string describe() const override {
    std::lock_guard lock(mutex_);
    return latest_.empty() ? name : name + " " + latest_;
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
    const std::string called(op(node.op).name);
    Status may = unsupported(called + " is no call of cuDNN");
    if (node.op == ops::convolution && !is_float(node.type.dtype))
      may = unsupported("cuDNN is not used for " + std::string(tenon::name(node.type.dtype)));
    else if (node.op == ops::convolution)
      may = make_spec(graph, v, [&](ValueId u) { return bound_strides(graph, u); }).status();
    else if (node.op == ops::attention)
      may = takes_attention(graph, node);
    if (!may.ok()) return {false, 0, may.message()};
    if (const auto driver = cuda::Driver::get(); !driver.ok()) return {false, 0, driver.status().message()};
    if (const auto library = Library::get(); !library.ok()) return {false, 0, library.status().message()};
    return {true, 0.5, "cuDNN " + called};
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

  Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) override {
    TENON_ASSIGN(Handles * handles, Handles::of(context.device.index));
    std::vector<std::unique_ptr<Executable>> built;
    for (const std::vector<ValueId>& members : groups) {
      auto call = std::make_unique<Call>();
      call->handles = handles;
      call->inputs = inputs_of(context.graph, members);
      call->outputs = {members.front()};
      TENON_TRY(describe_call(context, members.front(), *call)
                    .at("group of " + context.graph.value_name(members.front())));
      built.push_back(std::move(call));
    }
    return built;
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

  // Sets the name of the call and its work, with buffer positions of the executable.
  static Status describe_call(const BuildContext& context, ValueId v, Call& call) {
    const Graph& g = context.graph;
    const Node& node = g.node(v);
    const StridesOf strides_of = [&](ValueId u) -> std::optional<Dims> {
      if (!context.materialised[u]) return std::nullopt;
      return context.layouts[u].strides;
    };
    const auto place = [&](const std::vector<Operand*>& operands, Operand& result) {
      for (int o = 0; Operand * operand : operands) {
        TENON_CHECK(reads_in_place(g, node, o++, strides_of), "an operand lies otherwise than it was stored");
        const auto at = std::find(call.inputs.begin(), call.inputs.end(), operand->base);
        TENON_CHECK(at != call.inputs.end(), "the library reads a value its group does not list");
        operand->buffer = static_cast<int>(at - call.inputs.begin());
      }
      result.buffer = static_cast<int>(call.inputs.size());
    };
    call.name = "cuDNN " + std::string(op(node.op).name);
    if (node.op == ops::attention) {
      TENON_ASSIGN(AttentionSpec r, attention_spec(g, v, strides_of));
      std::vector<Operand*> operands{&r.q, &r.k, &r.v};
      if (r.mask) operands.push_back(&*r.mask);
      place(operands, r.y);
      call.work = [r = std::move(r)](const Sizes& sizes) { return at_sizes(r, sizes); };
    } else {
      TENON_ASSIGN(Spec r, make_spec(g, v, strides_of));
      place({&r.x, &r.w}, r.y);
      call.work = [r = std::move(r)](const Sizes& sizes) { return at_sizes(r, sizes); };
    }
    return {};
  }
};

}  // namespace
}  // namespace cudnn

Backend& cudnn_backend() {
  static auto& backend = *new cudnn::CudnnBackend;  // never destroyed: threads may be at work at exit
  return backend;
}

}  // namespace tenon
