// See pipeline.h.
#include "src/passes/pipeline.h"

#include <algorithm>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/ops/rows/names.h"
#include "src/passes/gradient.h"

namespace tenon {
namespace {

// Dumps the graph after a pass (TENON_DUMP) and verifies it (debug builds, TENON_VERIFY=1).
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

// Puts a view between an input with strides and a node whose back end does not read the input in place. `fuse` stores such a view.
Graph view_unread_inputs(const Graph& graph, const Placement& placement) {
  std::vector<bool> strided(graph.nodes.size(), false);
  for (const InputBinding& in : graph.inputs)
    strided[in.value] = in.strides && *in.strides != dense_strides(*graph.dims, graph.type(in.value).shape);
  if (std::ranges::count(strided, true) == 0) return graph;
  const auto is_unread = [&](ValueId v, ValueId operand) {
    const std::string backend = placement.keeps(graph, v);
    return !backend.empty() && !placement.reads(graph, backend, v, operand);
  };
  return rewrite(graph, [&](Builder& b, Node&& node, ValueId v) {
    const std::vector<ValueId>& before = graph.node(v).inputs;
    for (size_t i = 0; i < before.size(); ++i)
      if (strided[before[i]] && is_unread(v, before[i]))
        node.inputs[i] = b(ops::reshape, {node.inputs[i]}, {{"shape", graph.type(before[i]).shape}});
    return b.add(std::move(node));
  });
}

constexpr std::string_view kOptional[] = {"simplify", "sink_gathers", "fold_batch_norm",
                                          "layout",   "cse",          "fuse"};

}  // namespace

std::span<const std::string_view> optional_passes() { return kOptional; }

Status check_without(const Without& without) {
  for (const std::string& name : without) {
    if (std::ranges::find(kOptional, name) != std::end(kOptional)) continue;
    std::string all;
    for (std::string_view pass : kOptional) all += " " + std::string(pass);
    return invalid("no pass that may be left out is called " + name + "; there are:" + all);
  }
  return {};
}

Graph optimize(const Graph& graph, const Without& without) {
  Graph g = after("infer", graph);
  g = unless(without, "simplify", simplify, std::move(g));
  g = unless(without, "sink_gathers", sink_gathers, std::move(g));
  g = unless(without, "fold_batch_norm", fold_batch_norm, std::move(g));
  g = unless(without, "layout", layout, std::move(g));
  g = unless(without, "simplify", simplify, std::move(g));
  g = unless(without, "cse", cse, std::move(g));
  return g;
}

Split optimize_and_split(const Graph& graph, std::span<const void* const> params, std::vector<bool>* frozen,
                         const Without& without) {
  Split split = split_constants(optimize(after("freeze", freeze(graph, params, frozen)), without));
  // The data of main's constants is missing until init has run, so main cannot be verified here.
  if (dump_wanted("split_constants")) dump("split_constants", print(split.init) + print(split.main));
  return split;
}

Graph form_groups(const Graph& graph, const Placement& placement, const Without& without) {
  const auto keep = [&](const Graph& at, ValueId v) { return !placement.keeps(at, v).empty(); };
  Graph g = after("expand", expand(graph, keep));
  g = unless(without, "simplify", simplify, std::move(g));
  g = unless(without, "cse", cse, std::move(g));
  g = after("expand", expand(g, keep));  // a composite that was kept for its neighbours may have lost them
  g = after("legalize", rewrite(g, [&](Builder& b, Node&& node, ValueId v) {
              return placement.legalize(b, std::move(node), g, v);
            }));
  g = after("expand", expand(g, keep));  // legalize may have replaced the neighbours of a composite
  g = after("view_unread_inputs", view_unread_inputs(g, placement));
  if (placement.finds_faults()) g = after("early_checks", early_checks(g));
  g = after("duplicate_gathers", duplicate_gathers(g));
  g = after("materialize_outputs", materialize_outputs(g));
  const bool apart = is_left_out(without, "fuse");
  g = after("fuse", fuse(g, placement, apart));
  return apart ? g : after("duplicate_maps", duplicate_maps(g, placement));
}

Result<Graph> within_budget(const Graph& graph, int64_t budget, Recomputed* done) {
  TENON_ASSIGN(Graph made, recompute(graph, budget, done));
  return after("recompute", std::move(made));
}

namespace {

// A pass that asks nobody and leaves nothing out.
template <Graph (*pass)(const Graph&)>
Graph plain(const Graph& graph, const Placement&, const Without&) {
  return pass(graph);
}

Graph expand_all(const Graph& graph) {
  return expand(graph, [](const Graph&, ValueId) { return false; });
}
// All outputs, then their gradients with one head each.
Graph gradients_too(const Graph& graph) {
  auto made = gradient(graph, {.heads = true, .keep_outputs = true});
  if (!made.ok()) throw StatusError(made.status());
  return std::move(*made);
}
Graph split_init(const Graph& graph) {
  Graph init = split_constants(graph).init;
  if (init.outputs.empty()) throw StatusError(invalid("no value depends on constants alone"));
  return init;
}
Graph split_main(const Graph& graph) { return split_constants(graph).main; }

}  // namespace

const std::vector<NamedPass>& named_passes() {
  static const std::vector<NamedPass> passes = {
      {"simplify", plain<simplify>},
      {"cse", plain<cse>},
      {"sink_gathers", plain<sink_gathers>},
      {"fold_batch_norm", plain<fold_batch_norm>},
      {"layout", plain<layout>},
      {"expand", plain<expand_all>},
      {"early_checks", plain<early_checks>},
      {"duplicate_gathers", plain<duplicate_gathers>},
      {"materialize_outputs", plain<materialize_outputs>},
      {"gradient", plain<gradients_too>},
      {"split_init", plain<split_init>},
      {"split_main", plain<split_main>},
      {"optimize",
       [](const Graph& g, const Placement&, const Without& without) { return optimize(g, without); }},
      {"fuse", form_groups},
  };
  return passes;
}

}  // namespace tenon
