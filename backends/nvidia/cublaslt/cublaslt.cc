// See cublaslt.h.
#include "backends/nvidia/cublaslt/cublaslt.h"

#include "backends/library/call.h"
#include "backends/library/epilogue.h"
#include "backends/nvidia/cublaslt/algorithm.h"
#include "backends/nvidia/cublaslt/problem.h"
#include "backends/nvidia/cublaslt/spec.h"
#include "backends/nvidia/device/libraries.h"
#include "backends/nvidia/device/library_step.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace cublaslt {
namespace {

constexpr int64_t kMostWorkspace = int64_t{32} << 20;  // as much as PyTorch offers on Hopper
constexpr size_t kChain =
    4;  // longest chain of maps that is searched for a product in front of an activation

class ProductStep final : public cuda::LibraryStep<Algorithm> {
 public:
  ProductStep(const Handle* handle, BatchedCall call)
      : LibraryStep(handle->device(), call.places, call.zeros), handle_(handle), call_(std::move(call)) {}

  // Chooses the algorithm for aligned pointers. Called once, before the first run.
  Status choose() {
    auto best = [&] { return Algorithm::of(*handle_, call_.problem, kBestAlignment, kMostWorkspace); };
    auto chosen = best();
    if (!chosen.ok() && chosen.status().code() == Code::unsupported && call_.problem.batch > 1) {
      call_.unroll_batch();
      chosen = best();
    }
    if (!chosen.ok()) return chosen.status();
    for (const BatchedCall::Axis& axis : call_.outer)
      for (int64_t bytes : axis.bytes) distances_ |= static_cast<uintptr_t>(bytes);
    keep(std::move(*chosen));
    return {};
  }
  const BatchedCall& call() const { return call_; }
  int recordable() const override { return static_cast<int>(call_.calls()); }

 private:
  Status queue(Addresses at, cuda::CallTarget& target, std::monostate&) const override {
    const auto& [a, b, c, d, bias] = at.tensors;
    if (call_.zeros > 0) at.tensors[0] = at.tensors[1] = at.zeros;
    // Allowed while the caller captures, since the library's heuristic does not use the device.
    TENON_ASSIGN(const Algorithm* algorithm,
                 this->algorithm(at, distances_, [&](int64_t alignment, int64_t workspace) {
                   return Algorithm::of(*handle_, call_.problem, alignment, workspace);
                 }));
    TENON_ASSIGN(const cuda::CuStream stream, target.begin());
    if (call_.zeros > 0) TENON_TRY(clear(at.zeros, call_.zeros, stream));
    char* workspace = algorithm->workspace_bytes() > 0 ? at.workspace : nullptr;
    int64_t index[kMaxRank] = {};
    while (true) {
      TENON_TRY(algorithm->run(call_.alpha, call_.beta, {a, b, c, d, bias, workspace}, stream));
      size_t axis = call_.outer.size();
      for (; axis-- > 0;) {
        const BatchedCall::Axis& o = call_.outer[axis];
        const bool wraps = ++index[axis] == o.count;
        for (size_t m = 0; m < BatchedCall::kMatrices; ++m)
          at.tensors[m] += wraps ? o.bytes[m] * (1 - o.count) : o.bytes[m];
        if (!wraps) break;
        index[axis] = 0;
      }
      if (axis == static_cast<size_t>(-1)) return {};
    }
  }

  const Handle* handle_;
  BatchedCall call_;
  uintptr_t distances_ = 0;  // the bitwise or of the distances between calls
};

std::string title(const Spec& spec) {
  return "cublasLtMatmul" + epilogue_text(spec.bias.has_value(), spec.added.has_value(), spec.activation);
}

class Product final : public library::Call {
 public:
  const Handle* handle = nullptr;
  Spec spec;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    TENON_ASSIGN(BatchedCall call, at_sizes(spec, sizes));
    auto step = std::make_unique<ProductStep>(handle, std::move(call));
    if (!step->call().empty) {
      TENON_TRY(step->choose());
      const int64_t calls = step->call().calls();
      planned("cublasLtMatmul " + step->call().problem.text() +
              (calls > 1 ? ", in " + std::to_string(calls) + " calls" : ""));
    }
    return std::unique_ptr<Step>(std::move(step));
  }
};

Bid ask_spec(const Graph& graph, std::span<const ValueId> members) {
  const auto spec = make_spec(graph, members, [&](ValueId v) { return bound_strides(graph, v); });
  return Bid::at(0.5, spec.ok() ? title(*spec) : "", spec.status());
}

// Whether a product stands in front of the activation, and the library takes the nodes behind it as its epilogue, one after the
// other. If there are several products, any of them may be the first when groups form, so all must take the nodes behind them.
Bid ask_behind_product(const Graph& graph, ValueId activation) {
  Bid bid{false, 0, "it does not follow a matmul"};
  library::each_chain(graph, activation,
                      {is_product, [](const Node& node) { return op(node.op).kind == Kind::map; }, kChain},
                      [&](std::span<const ValueId> members) {
                        for (size_t n = 1; n <= members.size(); ++n) {
                          bid = ask_spec(graph, members.first(n));
                          if (!bid.yes) return true;
                        }
                        return false;
                      });
  return bid;
}

class CublasLtBackend final : public Backend {
 public:
  std::string_view name() const override { return "cublaslt"; }
  int device_type() const override { return DeviceId::kCuda; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Node& node = graph.node(v);
    Bid bid{false, 0, std::string(op(node.op).name) + " is no call of cuBLASLt"};
    if (is_product(node))
      bid = ask_spec(graph, {&v, 1});
    else if (activation_of(node) != Activation::none)
      bid = ask_behind_product(graph, v);
    return bid.yes ? Bid::at(bid.cost, bid.why, cuda::check_present<Library>()) : bid;
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

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const Graph& g = context.graph;
    TENON_ASSIGN(const Handle* handle, handle_of(context.device.index));
    auto product = std::make_unique<Product>();
    product->handle = handle;
    TENON_ASSIGN(product->spec, make_spec(g, members, [&](ValueId v) { return context.strides_of(v); }));
    Spec& r = product->spec;
    std::vector<Operand*> operands{&r.a, &r.b};
    if (r.added) operands.push_back(&*r.added);
    if (r.bias) operands.push_back(&*r.bias);
    product->bind(g, members, operands, r.result);
    product->name = title(r);
    // The added tensor may share the buffer of the result if it has the same strides and no other operand lies in it.
    if (r.added && r.added->strides == r.result.strides && r.added->offset == Dim(0) &&
        r.added->base != r.a.base && r.added->base != r.b.base && (!r.bias || r.added->base != r.bias->base))
      product->inplace = {{0, r.added->buffer}};
    return std::unique_ptr<Executable>(std::move(product));
  }

  std::string describe() const override {
    const Library* library = Library::opened();
    return library ? "cuBLASLt " + cuda::release_text(library->version())
                   : "cuBLASLt, opened with the first matmul";
  }
};

}  // namespace
}  // namespace cublaslt

Backend& cublaslt_backend() { return immortal<cublaslt::CublasLtBackend>(); }

}  // namespace tenon
