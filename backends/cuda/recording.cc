// See recording.h.
#include "backends/cuda/recording.h"

#include <atomic>
#include <cstring>
#include <vector>

namespace tenon::cuda {
namespace {

std::atomic<int> graphs_alive{0};

struct Node {
  CuFunction function = nullptr;
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  std::vector<uint64_t> values;
  CuGraphNode node = nullptr;
  bool changed = true;  // since the device was last told

  bool same_kernel(const Work& w) const { return function == w.function && values.size() == w.count; }
  bool same(const Work& w) const {
    return blocks == w.blocks && threads == w.threads && shared_bytes == w.shared_bytes &&
           std::memcmp(values.data(), w.values, w.count * sizeof(uint64_t)) == 0;
  }
};

class Graph final : public Recording {
 public:
  explicit Graph(const Device& device) : device_(device) { ++graphs_alive; }
  ~Graph() override {
    forget();
    --graphs_alive;
  }

  void begin() override { next_ = 0; }
  void add(const Work& w) {
    if (next_ == nodes_.size()) {
      nodes_.emplace_back();
      rebuild_ = true;
    }
    Node& n = nodes_[next_++];
    rebuild_ = rebuild_ || !n.same_kernel(w);
    if (n.same_kernel(w) && n.same(w)) return;
    n.function = w.function, n.blocks = w.blocks, n.threads = w.threads, n.shared_bytes = w.shared_bytes;
    n.values.assign(w.values, w.values + w.count);
    n.changed = true;
  }
  Status launch(void* stream) override {
    const Current current(device_);
    TENON_TRY(current.status());
    if (next_ != nodes_.size()) nodes_.resize(next_), rebuild_ = true;
    if (rebuild_ || !exec_) {
      forget();
      TENON_TRY(build());
      rebuild_ = false;
    } else {
      for (Node& n : nodes_) {
        if (!n.changed) continue;
        Parameters p(n);
        TENON_TRY(driver().cuGraphExecKernelNodeSetParams_v2(exec_, n.node, &p.node));
      }
    }
    for (Node& n : nodes_) n.changed = false;
    return driver().cuGraphLaunch(exec_, static_cast<CuStream>(stream));
  }

 private:
  struct Parameters {
    explicit Parameters(Node& n) {
      for (uint64_t& v : n.values) pointers.push_back(&v);
      node = {n.function,     n.blocks,        1,       1,       n.threads, 1, 1,
              n.shared_bytes, pointers.data(), nullptr, nullptr, nullptr};
    }
    std::vector<void*> pointers;
    CuKernelNode node;
  };

  Status build() {
    TENON_TRY(driver().cuGraphCreate(&graph_, 0));
    CuGraphNode before = nullptr;
    for (Node& n : nodes_) {
      Parameters p(n);
      TENON_TRY(driver().cuGraphAddKernelNode_v2(&n.node, graph_, before ? &before : nullptr, before ? 1 : 0,
                                                 &p.node));
      before = n.node;
    }
    return driver().cuGraphInstantiateWithFlags(&exec_, graph_, 0);
  }
  // What is under way goes on: the driver keeps what it needs of it.
  void forget() {
    if (exec_) driver().cuGraphExecDestroy.error_of(exec_);
    if (graph_) driver().cuGraphDestroy.error_of(graph_);
    exec_ = nullptr;
    graph_ = nullptr;
  }
  const Driver& driver() const { return device_.driver(); }

  const Device& device_;
  std::vector<Node> nodes_;
  size_t next_ = 0;
  bool rebuild_ = true;  // other kernels than those of the graph
  CuGraph graph_ = nullptr;
  CuGraphExec exec_ = nullptr;
};

}  // namespace

Status Work::queue(const Device& device, CuStream stream) const {
  void* arguments[kMostArguments];
  for (size_t i = 0; i < count; ++i) arguments[i] = const_cast<uint64_t*>(&values[i]);
  return device.driver().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream,
                                        arguments, nullptr);
}

void add(Recording& recording, const Work& work) { static_cast<Graph&>(recording).add(work); }

std::unique_ptr<Recording> record_graph(const Device& device) {
  return graphs_alive < kMostGraphs ? std::make_unique<Graph>(device) : nullptr;
}

}  // namespace tenon::cuda
