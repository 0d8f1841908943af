// See recording.h.
#include "backends/nvidia/device/recording.h"

#include "src/base/threads/immortal.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

namespace tenon::cuda {
namespace {

// The plan stops using its graph after so many runs in a row that captured more than a third of the library calls again: capturing
// a call is slower than queuing it.
constexpr int kMostCaptures = 8;

// A kernel, or a library call with the captured graph of the work that it queues.
struct Node {
  const void* what = nullptr;  // the CuFunction, or the identity of the call
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  std::vector<uint64_t> values;
  CuGraph call = nullptr;
  CuGraphNode node = nullptr;
  bool changed = true;  // since the last launch

  bool same_kernel(const Work& w) const { return what == w.function && values.size() == w.count; }
  bool same(const Work& w) const {
    return blocks == w.blocks && threads == w.threads && shared_bytes == w.shared_bytes &&
           std::memcmp(values.data(), w.values, w.count * sizeof(uint64_t)) == 0;
  }
};

class Graph;
struct Graphs {
  std::mutex mutex;
  std::vector<Graph*> all;
  std::atomic<uint64_t> launches{0};
};
Graphs& graphs() { return immortal<Graphs>(); }

class Graph final : public Recording {
 public:
  explicit Graph(const Device& device) : device_(device), launched_(graphs().launches.load()) {}
  ~Graph() override {
    {
      std::lock_guard lock(graphs().mutex);
      std::erase(graphs().all, this);
    }
    forget();
  }

  bool begin() override {
    busy_ = std::unique_lock(mutex_);
    next_ = 0;
    captured_ = 0;
    return !gone_;
  }
  void add(const Work& w) {
    Node& n = following();
    const bool same_kernel = n.same_kernel(w);
    rebuild_ = rebuild_ || !same_kernel;
    if (same_kernel && n.same(w)) return;
    drop(n.call);
    n.what = w.function;
    n.blocks = w.blocks, n.threads = w.threads, n.shared_bytes = w.shared_bytes;
    n.values.assign(w.values, w.values + w.count);
    n.changed = true;
  }
  Status add(const void* call, std::span<const uint64_t> words, FunctionRef<Status(CallTarget&)> queue) {
    Node& n = following();
    rebuild_ = rebuild_ || n.what != call || !n.call;
    if (n.what == call && n.call && std::ranges::equal(n.values, words)) return {};
    n.what = call;
    n.changed = true;
    ++captured_;
    drop(n.call);
    TENON_TRY(capture(queue, &n.call));
    n.values.assign(words.begin(), words.end());
    return {};
  }
  Status launch(void* stream) override {
    const auto held = std::move(busy_);
    const Current current(device_);
    TENON_TRY(current.status());
    if (next_ != nodes_.size()) {
      for (size_t i = next_; i < nodes_.size(); ++i) drop(nodes_[i].call);
      nodes_.resize(next_);
      rebuild_ = true;
    }
    TENON_TRY(check_captures());
    const Relaxed relaxed(driver());
    if (rebuild_ || !exec_ || !patch()) {
      forget_graph();
      TENON_TRY(build());
      rebuild_ = false;
    }
    for (Node& n : nodes_) n.changed = false;
    launched_ = ++graphs().launches;
    return driver().cuGraphLaunch(exec_, static_cast<CuStream>(stream));
  }

  uint64_t launched() const { return launched_; }
  // Destroys the graph for good. False: a run is under way, so the graph stays.
  bool retire() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    forget();
    gone_ = true;
    return true;
  }

 private:
  struct Parameters {
    explicit Parameters(Node& n) {
      for (uint64_t& v : n.values) pointers.push_back(&v);
      const auto function = static_cast<CuFunction>(const_cast<void*>(n.what));
      node = {function,       n.blocks,        1,       1,       n.threads, 1, 1,
              n.shared_bytes, pointers.data(), nullptr, nullptr, nullptr};
    }
    std::vector<void*> pointers;
    CuKernelNode node;
  };

  Node& following() {
    if (next_ == nodes_.size()) {
      nodes_.emplace_back();
      rebuild_ = true;
    }
    return nodes_[next_++];
  }
  // Captures on a stream that belongs to the graph and on which nothing ever runs.
  struct Capture final : CallTarget {
    explicit Capture(Graph& g) : graph(g) {}
    Status may_make(const std::string&) override { return {}; }
    Result<CuStream> begin() override {
      const Driver& driver = graph.driver();
      if (!graph.stream_) TENON_TRY(driver.cuStreamCreate(&graph.stream_, kCuNonBlocking));
      TENON_TRY(driver.cuStreamBeginCapture_v2(graph.stream_, kCuRelaxedCapture));
      begun = true;
      return graph.stream_;
    }
    Graph& graph;
    bool begun = false;
  };
  Status capture(FunctionRef<Status(CallTarget&)> queue, CuGraph* graph) {
    const Current current(device_);
    TENON_TRY(current.status());
    const Relaxed relaxed(driver());
    Capture target(*this);
    Status queued = queue(target);
    if (!target.begun) return queued;
    Status ended = driver().cuStreamEndCapture(stream_, graph);
    if (queued.ok() && ended.ok()) return {};
    drop(*graph);
    return queued.ok() ? ended : queued;
  }
  Status check_captures() {
    const auto calls = std::ranges::count_if(nodes_, [](const Node& n) { return n.call != nullptr; });
    in_a_row_ = !rebuild_ && 3 * captured_ > calls ? in_a_row_ + 1 : 0;
    if (in_a_row_ < kMostCaptures) return {};
    return environment("tensors of most library calls are elsewhere with every run");
  }

  Status build() {
    TENON_TRY(driver().cuGraphCreate(&graph_, 0));
    CuGraphNode before = nullptr;
    for (Node& n : nodes_) {
      const CuGraphNode* after = before ? &before : nullptr;
      const size_t count = before ? 1 : 0;
      if (n.call) {
        TENON_TRY(driver().cuGraphAddChildGraphNode(&n.node, graph_, after, count, n.call));
      } else {
        Parameters p(n);
        TENON_TRY(driver().cuGraphAddKernelNode_v2(&n.node, graph_, after, count, &p.node));
      }
      before = n.node;
    }
    return driver().cuGraphInstantiateWithFlags(&exec_, graph_, 0);
  }
  // Updates the changed nodes of the executable graph. False: the graph must be built again, for example because the library takes
  // another kernel for other pointers.
  bool patch() {
    for (Node& n : nodes_) {
      if (!n.changed) continue;
      Parameters p(n);
      const int error = n.call ? driver().cuGraphExecChildGraphNodeSetParams.status_of(exec_, n.node, n.call)
                               : driver().cuGraphExecKernelNodeSetParams_v2.status_of(exec_, n.node, &p.node);
      if (error != 0) return false;
    }
    return true;
  }

  // A launch that is under way completes: the driver keeps what it needs.
  void forget_graph() {
    if (exec_) driver().cuGraphExecDestroy.status_of(exec_);
    drop(graph_);
    exec_ = nullptr;
  }
  void forget() {
    forget_graph();
    for (Node& n : nodes_) drop(n.call);
    if (!stream_) return;
    const Current current(device_);
    const Relaxed relaxed(driver());
    driver().cuStreamDestroy_v2.status_of(stream_);
    stream_ = nullptr;
  }
  void drop(CuGraph& graph) {
    if (graph) driver().cuGraphDestroy.status_of(graph);
    graph = nullptr;
  }
  const Driver& driver() const { return device_.driver(); }

  const Device& device_;
  std::mutex mutex_;                   // held from begin() to launch()
  std::unique_lock<std::mutex> busy_;  // the lock of the run that records
  bool gone_ = false;                  // destroyed in favour of another graph
  std::atomic<uint64_t> launched_;     // the number of its last launch among the launches of all graphs
  std::vector<Node> nodes_;
  size_t next_ = 0;
  int captured_ = 0, in_a_row_ = 0;
  bool rebuild_ = true;  // the nodes no longer match the graph
  CuGraph graph_ = nullptr;
  CuGraphExec exec_ = nullptr;
  CuStream stream_ = nullptr;
};

}  // namespace

Status Work::queue(const Device& device, CuStream stream) const {
  void* arguments[kMostArguments];
  for (size_t i = 0; i < count; ++i) arguments[i] = const_cast<uint64_t*>(&values[i]);
  return device.driver().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream,
                                        arguments, nullptr);
}

void add(Recording& recording, const Work& work) { static_cast<Graph&>(recording).add(work); }
Status add(Recording& recording, const void* call, std::span<const uint64_t> words,
           FunctionRef<Status(CallTarget&)> queue) {
  return static_cast<Graph&>(recording).add(call, words, queue);
}

std::unique_ptr<Recording> record_graph(const Device& device) {
  Graphs& g = graphs();
  std::lock_guard lock(g.mutex);
  if (g.all.size() >= kMostGraphs) {
    const auto oldest = std::ranges::min_element(g.all, {}, &Graph::launched);
    if (g.launches - (*oldest)->launched() < kForgottenAfter || !(*oldest)->retire()) return nullptr;
    g.all.erase(oldest);
  }
  auto made = std::make_unique<Graph>(device);
  g.all.push_back(made.get());
  return made;
}

}  // namespace tenon::cuda
