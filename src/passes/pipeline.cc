// See pipeline.h.
#include "src/passes/pipeline.h"

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"

namespace tenon {
namespace {

// Text of the graph after each pass (TENON_DUMP), and verify between passes (debug builds, TENON_VERIFY=1).
Graph after(std::string_view pass, Graph graph) {
  if (dump_wanted(pass)) dump(pass, print(graph));
#ifdef NDEBUG
  const bool check = env_verify();
#else
  const bool check = true;
#endif
  if (check) {
    Status status = verify(graph);
    TENON_CHECK(status.ok(), "after " + std::string(pass) + ":\n" + status.message());
  }
  return graph;
}

}  // namespace

Graph optimize(const Graph& graph) {
  Graph g = after("infer", graph);
  g = after("simplify", simplify(g));
  g = after("fold_batch_norm", fold_batch_norm(g));
  g = after("layout", layout(g));
  g = after("simplify", simplify(g));
  g = after("cse", cse(g));
  return g;
}

Graph form_groups(const Graph& graph, const Placement& placement) {
  const auto keep = [&](const Graph& at, ValueId v) { return !placement.backend(at, v).empty(); };
  Graph g = after("expand", expand(graph, keep));
  g = after("simplify", simplify(g));
  g = after("cse", cse(g));
  g = after("expand", expand(g, keep));  // a composite kept for its neighbours may have lost them
  if (placement.arrange)
    g = after("arrange", rewrite(g, [&](Builder& b, Node&& node, ValueId v) {
                return placement.arrange(b, std::move(node), g, v);
              }));
  g = after("own_outputs", own_outputs(g));
  g = after("fuse", fuse(g, placement.rules));
  return g;
}

const std::vector<NamedPass>& named_passes() {
  static const std::vector<NamedPass> passes = {
      {"simplify", simplify},
      {"cse", cse},
      {"fold_batch_norm", fold_batch_norm},
      {"layout", layout},
      {"expand", [](const Graph& g) { return expand(g, [](const Graph&, ValueId) { return false; }); }},
      {"own_outputs", own_outputs},
      {"split_init", [](const Graph& g) { return split_constants(g).init; }},
      {"split_main", [](const Graph& g) { return split_constants(g).main; }},
      {"optimize", optimize},
  };
  return passes;
}

}  // namespace tenon
