// The mock driver's graphs; see cuda_mock.cc.
#include "tests/cuda_mock_state.h"

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
    const bool good = make_launch(n->launch, k, *kernel);
    n->launch.given = nullptr;
    n->name = state().number("N");
    text = g->name + " " + n->name + ": " + describe(n->launch);
    std::string names;
    for (size_t i = 0; i < after_count; ++i) {
      const auto found = std::find_if(g->nodes.begin(), g->nodes.end(), [&](const auto& m) {
        return m.get() == reinterpret_cast<const Node*>(after[i]);
      });
      if (found == g->nodes.end()) return kInvalidHandle;
      names += " " + (*found)->name;
    }
    if (!names.empty()) text += " after" + names;
    if (!good) return kInvalidValue;
    *node = reinterpret_cast<CuGraphNode>(n.get());
    g->nodes.push_back(std::move(n));
    return 0;
  });
}

TN_DRIVER cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph graph, unsigned long long) {
  return call("cuGraphInstantiateWithFlags", Needs::context, [&](std::string& text) {
    const Graph* g = find(state().graphs, graph);
    if (!g) return kInvalidHandle;
    auto x = std::make_unique<Exec>();
    for (const auto& n : g->nodes) x->launches.emplace_back(n.get(), n->launch);
    x->name = state().number("X");
    text = g->name + " = " + x->name;
    return *exec = keep<CuGraphExec>(state().execs, std::move(x)), 0;
  });
}

// As the driver has it, `node` is one of the graph that was instantiated, which must still be there.
TN_DRIVER cuGraphExecKernelNodeSetParams_v2(CuGraphExec exec, CuGraphNode node, const CuKernelNode* kernel) {
  return call("cuGraphExecKernelNodeSetParams_v2", Needs::context, [&](std::string& text) {
    Exec* x = find(state().execs, exec);
    KernelOf* k = kernel_of(kernel->function ? static_cast<const void*>(kernel->function) : kernel->kernel);
    if (!x || !k) return kInvalidHandle;
    const Node* n = nullptr;
    for (const auto& [at, graph] : state().graphs)
      for (const auto& each : graph->nodes)
        if (each.get() == reinterpret_cast<const Node*>(node)) n = each.get();
    for (auto& [of_graph, launch] : x->launches)
      if (n && of_graph == n) {
        Launch patched;
        const bool good = make_launch(patched, k, *kernel);
        patched.given = nullptr;
        text = x->name + " " + n->name + ": " + describe(patched);
        if (!good) return kInvalidValue;
        return launch = patched, 0;
      }
    return kInvalidHandle;
  });
}

TN_DRIVER cuGraphLaunch(CuGraphExec exec, CuStream stream) {
  return call("cuGraphLaunch", Needs::context, [&](std::string& text) {
    const Exec* x = find(state().execs, exec);
    if (!x) return kInvalidHandle;
    text = x->name + of(stream);
    if (captures(stream)) return kCaptureForbids;
    for (const auto& [node, launch] : x->launches) {
      if (!state().kernels.count(launch.kernel)) return kInvalidHandle;  // unloaded since
      text += "; " + describe(launch);
      if (launch.kernel->entry && launch.kernel->kinds.empty())
        return kInvalidValue;  // its arguments are not known
      if (const int code = execute(launch)) return code;
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
