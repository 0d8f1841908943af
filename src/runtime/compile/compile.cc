// See compile.h.
#include "src/runtime/compile/compile.h"

#include <map>

#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/ops/rows/names.h"
#include "src/passes/pipeline.h"
#include "src/runtime/compile/kept_graph.h"
#include "src/runtime/compile/placement.h"
#include "src/runtime/compile/same_memory.h"
#include "src/runtime/compile/updates.h"
#include "src/runtime/plan/bind.h"

namespace tenon {
namespace {

using Groups = std::vector<std::vector<ValueId>>;

// Which values are stored in memory, and with which layout.
struct Stored {
  std::vector<Layout> layouts;
  std::vector<bool> materialised;
};

Stored find_stored(const Graph& g, const Groups& members, const OutputSet& copied, PlanSource& source) {
  Stored stored{std::vector<Layout>(g.nodes.size()), std::vector<bool>(g.nodes.size(), false)};
  source.input_of.assign(g.nodes.size(), -1);
  source.output_of.assign(g.nodes.size(), -1);
  auto store = [&](ValueId v, const std::optional<Dims>& strides) {
    Dims row_major = dense_strides(*g.dims, g.type(v).shape);
    stored.materialised[v] = true;
    stored.layouts[v] = {strides ? *strides : row_major, !strides || *strides == row_major};
  };
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    source.input_of[g.inputs[i].value] = static_cast<int>(i);
    store(g.inputs[i].value, g.inputs[i].strides);
  }
  for (ValueId v = 0; v < g.nodes.size(); ++v)
    if (g.node(v).op == ops::constant && g.node(v).group < 0) store(v, std::nullopt);
  const Uses uses(g);
  for (const auto& group : members)
    for (ValueId v : outputs_of(g, uses, group)) store(v, std::nullopt);
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    if (copied.contains(i)) continue;
    source.output_of[g.outputs[i].value] = static_cast<int>(i);
    store(g.outputs[i].value, output_strides(g, g.outputs[i]));
  }
  return stored;
}

std::string uncovered(const BackendPlacement& placement, const Graph& g, ValueId v,
                      const std::string& reason) {
  std::string why, declined;
  why = g.value_name(v) + " = " + std::string(op(g.node(v).op).name) + ": no back end runs it";
  if (!reason.empty()) why += "; " + reason;
  placement.best(g, v, &declined);
  return why + "; " + declined;
}

// What a graph is built for.
struct BuildTarget {
  const BackendPlacement& placement;
  const Allocator& allocator;
  DeviceId device;
  const Without& without;
  int64_t budget = 0;  // bytes of intermediates; 0: no limit
};

// Builds the executables of the groups of built.graph. copied: updates that are intermediates.
Status build_groups(const BuildTarget& target, const OutputSet& copied, BuiltGraph& built) {
  const Graph& g = built.graph;
  const Groups members = members_of_groups(g);
  PlanSource& source = built.source;
  source.graph = &built.graph;
  source.find_sized();
  const Stored stored = find_stored(g, members, copied, source);
  const BuildContext context{g, stored.layouts, stored.materialised, target.allocator, target.device};
  source.executables = find_same_memory(members, source);
  std::map<std::string, std::vector<size_t>> by_backend;
  for (size_t i = 0; i < members.size(); ++i)
    if (!source.executables[i]) by_backend[g.groups[i].backend].push_back(i);
  for (auto& [name, list] : by_backend) {
    Backend* b = find_backend(name);
    if (!b) return unsupported(uncovered(target.placement, g, members[list[0]][0], g.groups[list[0]].why));
    Groups groups;
    for (size_t i : list) groups.push_back(members[i]);
    TENON_ASSIGN(auto executables, b->build(context, groups));
    std::vector<Executable*>& all = source.by_backend.emplace_back(b, std::vector<Executable*>()).second;
    for (size_t k = 0; k < list.size(); ++k) {
      all.push_back(executables[k].get());
      source.executables[list[k]] = std::move(executables[k]);
    }
  }
  share_outputs(stored.layouts, source);
  for (const auto& m : members) {
    built.nodes += static_cast<int64_t>(m.size());
    if (m.size() > 1) built.nodes_fused += static_cast<int64_t>(m.size());
  }
  for (auto& [backend, list] : source.by_backend)
    for (const Executable* e : list) {
      built.kernels += std::max(1, e->kernel_count());
      built.kernels_compiled += e->kernels_compiled;
    }
  return {};
}

// Writes updates of inputs in place where that is safe; see updates.h.
Status build(Graph grouped, const BuildTarget& target, BuiltGraph& built) {
  Recomputed recomputed;
  if (target.budget > 0) {
    TENON_ASSIGN(grouped, within_budget(grouped, target.budget, &recomputed));
  }
  OutputSet copied;
  while (true) {
    built.graph = grouped;
    copied.merge(order_groups(built.graph, copied));
    separate_copies(built.graph);
    for (size_t o : copied) built.graph.outputs[o].strides.reset();  // an intermediate is dense
    TENON_TRY(build_groups(target, copied, built));
    const OutputSet more = not_in_place(built.source, copied);
    if (more.empty()) break;
    copied.insert(more.begin(), more.end());
    built.source = {};
    built.nodes = built.nodes_fused = built.kernels = built.kernels_compiled = 0;
  }
  built.source.recomputed = std::move(recomputed);
  built.source.uses_host_memory = target.device.is_cpu();
  if (built.graph.has_donated_inputs())  // a host gets them back behind the last step that may fail
    for (const auto& e : built.source.executables)
      if (e->may_fail()) e->take_ahead();
  if (copied.empty()) return {};
  built.copies = std::make_unique<BuiltGraph>();
  TENON_TRY(build(form_groups(copies_of(grouped, copied), target.placement, target.without), target,
                  *built.copies));
  built.source.copies.source = &built.copies->source;
  for (size_t o : copied) {
    built.source.copies.from.push_back(built.graph.outputs[o].value);
    built.source.copies.to.push_back(static_cast<int>(o));
  }
  built.kernels += built.copies->kernels;
  built.kernels_compiled += built.copies->kernels_compiled;
  return {};
}

// Runs the constant part once. Its outputs become the data of main's constants.
Status run_init(Split& split, const BuildTarget& target, Parallel& parallel,
                std::vector<std::unique_ptr<Arena>>& storage, BuiltGraph* stats) {
  if (split.folded.empty()) return {};
  const Allocator& allocator = target.allocator;
  BuiltGraph init;
  BuildTarget once = target;
  once.budget = 0;
  TENON_TRY(build(form_groups(split.init, once.placement, once.without), once, init));
  TENON_ASSIGN(
      std::unique_ptr<Plan> plan,
      Plan::make(init.source, std::vector<int64_t>(split.main.dims->symbol_count(), 0), parallel.threads()));
  std::vector<void*> outputs;
  for (size_t i = 0; i < split.folded.size(); ++i) {
    const Node& node = split.main.node(split.folded[i]);
    const int64_t bytes = plan->outputs[i].elements * size_of(node.type.dtype);
    storage.push_back(std::make_unique<Arena>(bytes, allocator));
    auto& data = *attr_as<std::shared_ptr<ConstantData>>(node, "data");
    data.bytes = storage.back()->data();
    data.size = static_cast<size_t>(bytes);
    data.id = next_constant_id();
    outputs.push_back(storage.back()->data());
  }
  ArenaPool arenas(allocator);
  TENON_TRY(plan->run(nullptr, outputs.data(), arenas, {parallel}));
  stats->kernels_compiled += init.kernels_compiled;
  return {};
}

// Copies the constants that steps read to the device.
Status upload(DeviceRuntime& runtime, BuiltGraph& built, std::vector<std::shared_ptr<void>>& uploaded) {
  const Graph& g = built.graph;
  built.source.constant_at.resize(g.nodes.size());
  for (ValueId v = 0; v < g.nodes.size(); ++v) {
    if (g.node(v).op != ops::constant || g.node(v).group >= 0) continue;
    const auto& data = *attr_as<std::shared_ptr<ConstantData>>(g.node(v), "data");
    const auto bytes = static_cast<int64_t>(data.size);
    if (bytes == 0) continue;
    TENON_ASSIGN(std::shared_ptr<void> copy, runtime.keep(data.bytes, bytes));
    built.source.constant_at[v] = copy.get();
    uploaded.push_back(std::move(copy));
  }
  return {};
}

// Checks that no frozen input is updated.
Status check_updates(const Graph& graph, std::span<const Tensor> params) {
  for (const OutputBinding& o : graph.outputs)
    if (o.updates && !params.empty() && params[*o.updates].data)
      return invalid(graph.value_name(graph.inputs[*o.updates].value) +
                     " is updated by an output, so it cannot be frozen");
  return {};
}

Status check_for_device(const Graph& graph, const ProgramOptions& options) {
  if (options.freeze) return unsupported("params are packed for programs of the CPU only");
  const Uses uses(graph);
  for (const InputBinding& i : graph.inputs)
    if (i.symbol && (!uses.users(i.value).empty() || uses.is_output(i.value)))
      return unsupported(graph.value_name(i.value) +
                         " defines a symbol, on the host; a device cannot read it");
  return {};
}

// The back ends that the host named, or all of the device.
std::vector<Backend*> chosen_backends(const ProgramOptions& options) {
  if (options.backends.empty()) return backends_of(options.device.type);
  std::vector<Backend*> chosen;
  for (const std::string& name : options.backends)
    if (Backend* b = find_backend(name)) chosen.push_back(b);
  return chosen;
}

Result<DeviceRuntime*> runtime_of(const BackendPlacement& placement, DeviceId device) {
  DeviceRuntime* runtime = nullptr;
  for (Backend* b : placement.backends()) {
    TENON_ASSIGN(DeviceRuntime * of_backend, b->runtime(device.index));
    if (!runtime) runtime = of_backend;
  }
  if (!runtime) return unsupported("no back end runs on device type " + std::to_string(device.type));
  return runtime;
}

}  // namespace

Result<std::unique_ptr<Compiled>> compile(const Graph& graph, const ProgramOptions& options,
                                          Parallel& parallel, std::span<const Tensor> params) {
  const bool on_cpu = options.device.is_cpu();
  if (options.freeze) {
    TENON_TRY(check_params(graph, params));
    TENON_TRY(check_updates(graph, params));
  }
  if (!on_cpu) TENON_TRY(check_for_device(graph, options));
  const BackendPlacement placement(chosen_backends(options), options.device.type);
  const BuildTarget target{placement, options.allocator, options.device, options.without, options.budget};
  std::optional<KeptGraph> kept;
  if (on_cpu && !options.freeze) kept.emplace(graph, placement, options.without);
  if (std::optional<Graph> grouped = kept ? kept->find() : std::nullopt) {
    auto compiled = std::make_unique<Compiled>();
    compiled->frozen.assign(graph.inputs.size(), false);
    const Status built = build(std::move(*grouped), target, compiled->main);
    if (built.ok()) return compiled;
    kept->refuse(built.message());
  }

  auto compiled = std::make_unique<Compiled>();
  std::vector<const void*> constants;
  if (options.freeze)
    for (const Tensor& t : params) constants.push_back(t.data);
  Split split = optimize_and_split(graph, constants, &compiled->frozen, options.without);
  if (on_cpu) {
    TENON_TRY(run_init(split, target, parallel, compiled->folded, &compiled->main));
  } else {
    TENON_ASSIGN(compiled->runtime, runtime_of(placement, options.device));
    const BackendPlacement host(backends_of(DeviceId::kCpu), DeviceId::kCpu);
    const BuildTarget on_host{host, {}, {}, options.without};
    TENON_TRY(run_init(split, on_host, default_parallel(), compiled->folded, &compiled->main));
  }
  const Graph grouped = form_groups(split.main, placement, options.without);
  TENON_TRY(build(grouped, target, compiled->main));
  if (kept) kept->keep(grouped);
  if (!compiled->runtime) return compiled;
  compiled->main.source.graphs = options.graphs;
  TENON_TRY(upload(*compiled->runtime, compiled->main, compiled->uploaded));
  return compiled;
}

}  // namespace tenon
