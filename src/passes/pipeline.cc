// See pipeline.h.
#include "src/passes/pipeline.h"

#include <algorithm>

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

bool is_left_out(const Without& without, std::string_view pass) {
  return std::ranges::find(without, pass) != without.end();
}

// Runs the named pass unless it is left out.
Graph unless(const Without& without, std::string_view pass, Graph (*run)(const Graph&), Graph graph) {
  return is_left_out(without, pass) ? graph : after(pass, run(graph));
}

constexpr std::string_view kOptional[] = {"simplify", "fold_batch_norm", "layout", "cse", "fuse"};

// Every node in a group of its own.
FuseRules apart(FuseRules rules) {
  rules.join = [join = rules.join](const std::string& backend, std::span<const ValueId> members, ValueId node,
                                   std::string* why) {
    if (members.empty()) return join(backend, members, node, why);
    *why = "the pass fuse is left out";
    return false;
  };
  return rules;
}

}  // namespace

std::span<const std::string_view> optional_passes() { return kOptional; }

Status check_without(const Without& without) {
  for (const std::string& name : without)
    if (std::ranges::find(kOptional, name) == std::end(kOptional))
      return invalid("no pass that may be left out is called " + name);
  return {};
}

Graph optimize(const Graph& graph, const Without& without) {
  Graph g = after("infer", graph);
  g = unless(without, "simplify", simplify, std::move(g));
  g = unless(without, "fold_batch_norm", fold_batch_norm, std::move(g));
  g = unless(without, "layout", layout, std::move(g));
  g = unless(without, "simplify", simplify, std::move(g));
  g = unless(without, "cse", cse, std::move(g));
  return g;
}

Graph form_groups(const Graph& graph, const Placement& placement) {
  const auto keep = [&](const Graph& at, ValueId v) { return !placement.backend(at, v).empty(); };
  Graph g = after("expand", expand(graph, keep));
  g = unless(placement.without, "simplify", simplify, std::move(g));
  g = unless(placement.without, "cse", cse, std::move(g));
  g = after("expand", expand(g, keep));  // a composite kept for its neighbours may have lost them
  if (placement.arrange)
    g = after("arrange", rewrite(g, [&](Builder& b, Node&& node, ValueId v) {
                return placement.arrange(b, std::move(node), g, v);
              }));
  g = after("own_outputs", own_outputs(g));
  const bool fuses = !is_left_out(placement.without, "fuse");
  g = after("fuse", fuse(g, [&](const Graph& at) {
              return fuses ? placement.rules(at) : apart(placement.rules(at));
            }));
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
      {"optimize", [](const Graph& g) { return optimize(g); }},
  };
  return passes;
}

}  // namespace tenon
