// The mock driver's graphs; see cuda_mock.cc.
#include "tests/mocks/cuda/cuda_mock_state.h"

namespace {

const Node* node_of(CuGraphNode handle) {
  for (const auto& [at, graph] : state().graphs)
    for (const auto& each : graph->nodes)
      if (each.get() == reinterpret_cast<const Node*>(handle)) return each.get();
  return nullptr;
}

Item* item_of(Exec& exec, CuGraphNode handle) {
  const Node* n = node_of(handle);
  for (auto& [node, item] : exec.items)
    if (n && node == n) return &item;
  return nullptr;
}

// False: a library with one of the item's kernels was unloaded meanwhile.
bool loaded(const Item& item) {
  return (!item.launch.kernel || state().kernels.count(item.launch.kernel)) &&
         std::all_of(item.child.begin(), item.child.end(), loaded);
}

Item whole(const Graph& graph) {
  Item item;
  for (const auto& n : graph.nodes) item.child.push_back(n->item);
  return item;
}

int add_node(Graph& g, std::unique_ptr<Node> n, const CuGraphNode* after, size_t after_count,
             CuGraphNode* node, std::string& text) {
  n->name = state().number("N");
  text = g.name + " " + n->name + ": " + describe(n->item);
  std::string names;
  for (size_t i = 0; i < after_count; ++i) {
    const auto found = std::find_if(g.nodes.begin(), g.nodes.end(), [&](const auto& m) {
      return m.get() == reinterpret_cast<const Node*>(after[i]);
    });
    if (found == g.nodes.end()) return kInvalidHandle;
    names += " " + (*found)->name;
  }
  if (!names.empty()) text += " after" + names;
  *node = reinterpret_cast<CuGraphNode>(n.get());
  g.nodes.push_back(std::move(n));
  return 0;
}

}  // namespace

TN_DRIVER cuGraphCreate(CuGraph* graph, unsigned) {
  return call("cuGraphCreate", Needs::init, [&](std::string& text) {
    auto g = std::make_unique<Graph>();
    g->name = text = state().number("G");
    return *graph = keep<CuGraph>(state().graphs, std::move(g)), 0;
  });
}

TN_DRIVER cuGraphAddKernelNode_v2(CuGraphNode* node, CuGraph graph, const CuGraphNode* after,
                                  size_t after_count, const CuKernelNode* kernel) {
  return call("cuGraphAddKernelNode_v2", Needs::context, [&](std::string& text) {
    Graph* g = find(state().graphs, graph);
    KernelOf* k = kernel_of(kernel->function ? static_cast<const void*>(kernel->function) : kernel->kernel);
    if (!g || !k) return kInvalidHandle;
    auto n = std::make_unique<Node>();
    const bool good = make_launch(n->item.launch, k, *kernel);
    n->item.launch.given = nullptr;
    const int code = add_node(*g, std::move(n), after, after_count, node, text);
    return good ? code : kInvalidValue;
  });
}

// Copies the child, like the driver.
TN_DRIVER cuGraphAddChildGraphNode(CuGraphNode* node, CuGraph graph, const CuGraphNode* after,
                                   size_t after_count, CuGraph child) {
  return call("cuGraphAddChildGraphNode", Needs::context, [&](std::string& text) {
    Graph* g = find(state().graphs, graph);
    const Graph* c = find(state().graphs, child);
    if (!g || !c || g == c) return kInvalidHandle;
    auto n = std::make_unique<Node>();
    n->item = whole(*c);
    return add_node(*g, std::move(n), after, after_count, node, text);
  });
}

TN_DRIVER cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph graph, unsigned long long) {
  return call("cuGraphInstantiateWithFlags", Needs::context, [&](std::string& text) {
    const Graph* g = find(state().graphs, graph);
    if (!g) return kInvalidHandle;
    if (unsafe()) return kCaptureForbids;
    auto x = std::make_unique<Exec>();
    for (const auto& n : g->nodes) x->items.emplace_back(n.get(), n->item);
    x->name = state().number("X");
    text = g->name + " = " + x->name;
    return *exec = keep<CuGraphExec>(state().execs, std::move(x)), 0;
  });
}

// As in the driver, `node` belongs to the graph that was instantiated, which must still exist.
TN_DRIVER cuGraphExecKernelNodeSetParams_v2(CuGraphExec exec, CuGraphNode node, const CuKernelNode* kernel) {
  return call("cuGraphExecKernelNodeSetParams_v2", Needs::context, [&](std::string& text) {
    Exec* x = find(state().execs, exec);
    KernelOf* k = kernel_of(kernel->function ? static_cast<const void*>(kernel->function) : kernel->kernel);
    if (!x || !k) return kInvalidHandle;
    Item* item = item_of(*x, node);
    if (!item || !item->launch.kernel) return kInvalidHandle;
    Launch patched;
    const bool good = make_launch(patched, k, *kernel);
    patched.given = nullptr;
    text = x->name + " " + node_of(node)->name + ": " + describe(patched);
    if (!good) return kInvalidValue;
    return item->launch = patched, 0;
  });
}

// Refused if the new child has other nodes than the old one.
TN_DRIVER cuGraphExecChildGraphNodeSetParams(CuGraphExec exec, CuGraphNode node, CuGraph child) {
  return call("cuGraphExecChildGraphNodeSetParams", Needs::context, [&](std::string& text) {
    Exec* x = find(state().execs, exec);
    const Graph* c = find(state().graphs, child);
    if (!x || !c) return kInvalidHandle;
    Item* item = item_of(*x, node);
    if (!item || item->launch.kernel) return kInvalidHandle;
    Item patched = whole(*c);
    text = x->name + " " + node_of(node)->name + ": " + describe(patched);
    const auto same = [](const Item& a, const Item& b) { return !a.launch.kernel == !b.launch.kernel; };
    if (!std::equal(patched.child.begin(), patched.child.end(), item->child.begin(), item->child.end(), same))
      return kInvalidValue;
    return *item = std::move(patched), 0;
  });
}

TN_DRIVER cuGraphLaunch(CuGraphExec exec, CuStream stream) {
  return call("cuGraphLaunch", Needs::context, [&](std::string& text) {
    const Exec* x = find(state().execs, exec);
    if (!x) return kInvalidHandle;
    text = x->name + of(stream);
    if (captures(stream)) return kCaptureForbids;
    for (const auto& [node, item] : x->items) {
      if (!loaded(item)) return kInvalidHandle;
      text += "; " + describe(item);
      const KernelOf* k = item.launch.kernel;
      if (k && k->entry && k->kinds.empty()) return kInvalidValue;  // the kinds of its arguments are unknown
      if (const int code = execute(item)) return code;
    }
    return 0;
  });
}

TN_DRIVER cuGraphExecDestroy(CuGraphExec exec) {
  return call("cuGraphExecDestroy", Needs::init, [&](std::string& text) {
    const Exec* x = find(state().execs, exec);
    if (!x) return kInvalidHandle;
    text = x->name;
    state().execs.erase(exec);
    return 0;
  });
}

TN_DRIVER cuGraphDestroy(CuGraph graph) {
  return call("cuGraphDestroy", Needs::init, [&](std::string& text) {
    const Graph* g = find(state().graphs, graph);
    if (!g) return kInvalidHandle;
    text = g->name;
    state().graphs.erase(graph);
    return 0;
  });
}
