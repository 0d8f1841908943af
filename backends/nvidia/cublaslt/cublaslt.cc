// See cublaslt.h. A step holds one algorithm of the library per alignment of its pointers. The algorithms for less than 16 bytes are
// chosen to need no more workspace than the one for 16.
#include "backends/nvidia/cublaslt/cublaslt.h"

#include <algorithm>
#include <mutex>

#include "backends/nvidia/cublaslt/algorithm.h"
#include "backends/nvidia/cublaslt/problem.h"
#include "backends/nvidia/cublaslt/spec.h"
#include "backends/nvidia/device/by_alignment.h"
#include "backends/nvidia/device/libraries.h"
#include "backends/nvidia/device/recording.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace cublaslt {
namespace {

constexpr int64_t kMostWorkspace = int64_t{32} << 20;  // as much as PyTorch offers on Hopper
constexpr int64_t kWorkspaceAlignment = 256;
constexpr int kChain = 4;  // longest chain of maps that is searched for a product in front of an activation

int64_t round_up(int64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

class ProductStep final : public Step {
 public:
  ProductStep(const Handle* handle, BatchedCall work) : handle_(handle), call_(std::move(work)) {}

  // Chooses the algorithm for aligned pointers. Called once, before the first run.
  Status choose() {
    auto best = [&] { return Algorithm::of(*handle_, call_.problem, algorithms_.kMost, kMostWorkspace); };
    auto chosen = best();
    if (!chosen.ok() && chosen.status().code() == Code::unsupported && call_.problem.batch > 1) {
      call_.unroll_batch();
      chosen = best();
    }
    if (!chosen.ok()) return chosen.status();
    workspace_ = (*chosen)->workspace_bytes();
    for (const BatchedCall::Axis& axis : call_.outer)
      for (int64_t bytes : axis.bytes) step_bits_ |= static_cast<uintptr_t>(bytes);
    algorithms_.keep_most(std::move(*chosen));
    return {};
  }
  const BatchedCall& call() const { return call_; }

  int64_t scratch_bytes() const override {
    const int64_t bytes = round_up(call_.zeros) + workspace_;
    return bytes > 0 ? bytes + kWorkspaceAlignment - kAlign : 0;  // scratch is aligned to kAlign
  }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this) + algorithms_.bytes(); }

  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    if (call_.empty) return {};
    const cuda::Current current(handle_->device());
    TENON_TRY(current.status());
    cuda::StreamTarget target(handle_->device(), on.stream);
    return queue(buffers, scratch, target);
  }
  int recordable() const override { return call_.empty ? 0 : static_cast<int>(call_.calls()); }
  Status record(void* const* buffers, char* scratch, Recording& recording) const override {
    if (call_.empty) return {};
    uint64_t words[BatchedCall::kMatrices + 2] = {};
    for (int m = 0; m < BatchedCall::kMatrices; ++m)
      words[m] = call_.buffers[m] < 0 ? 0 : reinterpret_cast<uint64_t>(buffers[call_.buffers[m]]);
    if (call_.bias_buffer >= 0)
      words[BatchedCall::kMatrices] = reinterpret_cast<uint64_t>(buffers[call_.bias_buffer]);
    if (scratch_bytes() > 0) words[BatchedCall::kMatrices + 1] = reinterpret_cast<uint64_t>(scratch);
    return cuda::add(recording, this, words,
                     [&](cuda::CallTarget& target) { return queue(buffers, scratch, target); });
  }

 private:
  Status queue(void* const* buffers, char* scratch, cuda::CallTarget& target) const {
    char* zeros = reinterpret_cast<char*>(round_up(reinterpret_cast<int64_t>(scratch)));
    const char* pointers[BatchedCall::kMatrices];
    uintptr_t bits = step_bits_;
    for (int m = 0; m < BatchedCall::kMatrices; ++m) {
      const bool nothing = call_.zeros > 0 && m < 2;
      pointers[m] = nothing ? zeros : static_cast<char*>(buffers[call_.buffers[m]]) + call_.offsets[m];
      bits |= reinterpret_cast<uintptr_t>(pointers[m]);
    }
    const char* bias = nullptr;
    if (call_.bias_buffer >= 0) {
      bias = static_cast<char*>(buffers[call_.bias_buffer]) + call_.bias_offset;
      bits |= reinterpret_cast<uintptr_t>(bias);
    }
    // Allowed while the caller captures, since the library's heuristic does not use the device.
    TENON_ASSIGN(const Algorithm* algorithm, algorithms_.at(bits, [&](int64_t alignment) {
      return Algorithm::of(*handle_, call_.problem, alignment, workspace_);
    }));
    TENON_ASSIGN(const cuda::CuStream stream, target.begin());
    if (call_.zeros > 0)
      TENON_TRY(handle_->device().driver().cuMemsetD8Async(reinterpret_cast<cuda::CuAddress>(zeros), 0,
                                                           static_cast<size_t>(call_.zeros), stream));
    char* workspace = algorithm->workspace_bytes() > 0 ? zeros + round_up(call_.zeros) : nullptr;
    int64_t index[kMaxRank] = {};
    while (true) {
      const Pointers at{pointers[0], pointers[1], pointers[2], const_cast<char*>(pointers[3]),
                        bias,        workspace};
      TENON_TRY(algorithm->run(call_.alpha, call_.beta, at, stream));
      size_t axis = call_.outer.size();
      for (; axis-- > 0;) {
        const BatchedCall::Axis& a = call_.outer[axis];
        const bool wraps = ++index[axis] == a.count;
        for (int m = 0; m < BatchedCall::kMatrices; ++m)
          pointers[m] += wraps ? a.bytes[m] * (1 - a.count) : a.bytes[m];
        if (!wraps) break;
        index[axis] = 0;
      }
      if (axis == static_cast<size_t>(-1)) return {};
    }
  }

  const Handle* handle_;
  BatchedCall call_;
  int64_t workspace_ = 0;
  uintptr_t step_bits_ = 0;  // the bitwise or of the distances between calls
  cuda::ByAlignment<Algorithm> algorithms_;
};

class Product final : public Executable {
 public:
  const Handle* handle = nullptr;
  Spec spec;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    TENON_ASSIGN(BatchedCall work, at_sizes(spec, sizes));
    auto step = std::make_unique<ProductStep>(handle, std::move(work));
    if (!step->call().empty) {
      TENON_TRY(step->choose());
      std::string text = step->call().problem.text();
      if (const int64_t calls = step->call().calls(); calls > 1)
        text += ", in " + std::to_string(calls) + " calls";
      std::lock_guard lock(mutex_);
      latest_ = std::move(text);
    }
    return std::unique_ptr<Step>(std::move(step));
  }
  std::string describe() const override {
    std::lock_guard lock(mutex_);
    if (!latest_.empty()) return "cublasLtMatmul " + latest_;
    return "cublasLtMatmul" + epilogue_text(spec.bias.has_value(), spec.added.has_value(), spec.activation);
  }

 private:
  mutable std::mutex mutex_;
  std::string latest_;  // the problem of the newest plan
};

Bid ask_spec(const Graph& graph, std::span<const ValueId> members) {
  const auto spec = make_spec(graph, members, [&](ValueId v) { return bound_strides(graph, v); });
  if (!spec.ok()) return {false, 0, spec.status().message()};
  return {
      true, 0.5,
      "cublasLtMatmul" + epilogue_text(spec->bias.has_value(), spec->added.has_value(), spec->activation)};
}

// Whether there is a product in front of `tail`, and whether the library takes the nodes of `chain` (last node first) as its
// epilogue, one after the other.
struct Found {
  bool product = false;
  Bid bid{false, 0, "it does not follow a matmul"};
};
Found find_product(const Graph& graph, const std::vector<int>& uses, ValueId tail,
                   std::vector<ValueId>& chain) {
  const Node& node = graph.node(tail);
  if (uses[tail] != 1) return {};
  if (is_product(node)) {
    std::vector<ValueId> members{tail};
    Bid bid = ask_spec(graph, members);
    for (auto next = chain.rbegin(); next != chain.rend() && bid.yes; ++next) {
      members.push_back(*next);
      bid = ask_spec(graph, members);
    }
    return {true, bid};
  }
  if (op(node.op).kind != Kind::map || chain.size() >= kChain) return {};
  chain.push_back(tail);
  Found found;
  // If there are several products, any of them may be the first when groups form, so all must take the chain.
  for (ValueId input : node.inputs) {
    const Found below = find_product(graph, uses, input, chain);
    if (below.product && (!found.product || found.bid.yes)) found = below;
  }
  chain.pop_back();
  return found;
}

class CublasLtBackend final : public Backend {
 public:
  std::string_view name() const override { return "cublaslt"; }
  int device_type() const override { return DeviceId::kCuda; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Node& node = graph.node(v);
    Bid bid{false, 0, std::string(op(node.op).name) + " is no call of cuBLASLt"};
    if (is_product(node)) {
      bid = ask_spec(graph, {&v, 1});
    } else if (activation_of(node) != Activation::none) {
      const std::vector<int> uses = graph.use_counts();
      std::vector<ValueId> chain{v};
      bid = find_product(graph, uses, node.inputs[0], chain).bid;
    }
    if (!bid.yes) return bid;
    if (const auto driver = cuda::Driver::get(); !driver.ok()) return {false, 0, driver.status().message()};
    if (const auto library = Library::get(); !library.ok()) return {false, 0, library.status().message()};
    return bid;
  }

  bool reads(const Graph& graph, ValueId node, ValueId operand) const override {
    return !is_product(graph.node(node)) ||
           reads_in_place(graph, operand, [&](ValueId v) { return bound_strides(graph, v); });
  }

  Bid joins(const Graph& graph, const Uses&, std::span<const ValueId> members, ValueId v) const override {
    std::vector<ValueId> all(members.begin(), members.end());
    all.push_back(v);
    return ask_spec(graph, all);
  }

  Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) override {
    const Graph& g = context.graph;
    TENON_ASSIGN(const Handle* handle, handle_of(context.device.index));
    std::vector<std::unique_ptr<Executable>> built;
    for (const std::vector<ValueId>& members : groups) {
      auto product = std::make_unique<Product>();
      product->handle = handle;
      product->inputs = inputs_of(g, members);
      product->outputs = {members.back()};
      auto spec = make_spec(g, members, [&](ValueId v) -> std::optional<Dims> {
        if (!context.materialised[v]) return std::nullopt;
        return context.layouts[v].strides;
      });
      if (!spec.ok()) return spec.status().at("group of " + g.value_name(members.back()));
      Spec& r = product->spec = std::move(*spec);
      auto find = [&](Operand& o) {
        auto at = std::find(product->inputs.begin(), product->inputs.end(), o.base);
        TENON_CHECK(at != product->inputs.end(), "the library reads a value its group does not list");
        o.buffer = static_cast<int>(at - product->inputs.begin());
      };
      find(r.a);
      find(r.b);
      if (r.added) find(*r.added);
      if (r.bias) find(*r.bias);
      r.result.buffer = static_cast<int>(product->inputs.size());
      // The added tensor may share the buffer of the result if it has the same strides and no other operand lies in it.
      if (r.added && r.added->strides == r.result.strides && r.added->offset == Dim(0) &&
          r.added->base != r.a.base && r.added->base != r.b.base &&
          (!r.bias || r.added->base != r.bias->base))
        product->inplace = {{0, r.added->buffer}};
      built.push_back(std::move(product));
    }
    return built;
  }

  std::string describe() const override {
    const Library* library = Library::opened();
    return library ? "cuBLASLt " + cuda::release_text(library->version())
                   : "cuBLASLt, opened with the first matmul";
  }
};

}  // namespace
}  // namespace cublaslt

Backend& cublaslt_backend() {
  static auto& backend = *new cublaslt::CublasLtBackend;  // never destroyed: threads may be at work at exit
  return backend;
}

}  // namespace tenon
