// See program.h. Tested by tests/run_test.cc.
#include "src/runtime/program.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/ir/verify.h"
#include "src/ops/eval.h"
#include "src/ops/names.h"
#include "src/passes/pipeline.h"
#include "src/runtime/bind.h"
#include "src/runtime/explain.h"
#include "src/runtime/plan.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<Backend*> chosen_backends(const ProgramOptions& options) {
  std::vector<Backend*> chosen;
  if (options.backends.empty()) {
    for (Backend* b : all_backends()) chosen.push_back(b);
  } else {
    for (const std::string& name : options.backends)
      if (Backend* b = find_backend(name)) chosen.push_back(b);
  }
  return chosen;
}

// The lowest bid wins; earlier back ends win ties.
Backend* best_bid(const std::vector<Backend*>& backends, const Graph& graph, ValueId v) {
  Backend* best = nullptr;
  double cost = 0;
  for (Backend* b : backends) {
    Bid bid = b->bid(graph, v);
    if (bid.yes && (!best || bid.cost < cost)) best = b, cost = bid.cost;
  }
  return best;
}

// The constant that stands for a frozen param, or kNoValue. A param whose storage is a permutation of dense rows becomes
// a dense constant and a transpose; other layouts stay inputs.
ValueId frozen_param(Builder& b, const TensorType& type, const InputBinding& binding, const Tensor& tensor) {
  static std::atomic<uint64_t> next_id{1};
  const size_t rank = type.shape.size();
  std::vector<int64_t> perm(rank);
  for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
  for (size_t i = 0; i < rank; ++i)
    if (!type.shape[i].is_const() || (binding.strides && !(*binding.strides)[i].is_const())) return kNoValue;
  if (binding.strides) {
    auto stride = [&](int64_t a) { return (*binding.strides)[a].value(); };
    std::stable_sort(perm.begin(), perm.end(), [&](int64_t x, int64_t y) { return stride(x) > stride(y); });
    int64_t step = 1;
    for (size_t k = rank; k-- > 0;) {
      if (type.shape[perm[k]] != Dim(1) && stride(perm[k]) != step) return kNoValue;
      step *= type.shape[perm[k]].value();
    }
  }
  Dims stored, back(rank);
  int64_t bytes = size_of(type.dtype);
  bool moved = false;
  for (size_t k = 0; k < rank; ++k) {
    stored.push_back(type.shape[perm[k]]);
    bytes *= stored.back().value();
    back[perm[k]] = Dim(static_cast<int64_t>(k));
    moved = moved || perm[k] != static_cast<int64_t>(k);
  }
  auto data = std::make_shared<ConstantData>();
  data->bytes = tensor.data;
  data->size = static_cast<size_t>(bytes);
  data->id = next_id.fetch_add(1);
  ValueId c = b(ops::constant, {}, {{"dtype", type.dtype}, {"shape", stored}, {"data", data}});
  return moved ? b(ops::transpose, {c}, {{"perm", back}}) : c;
}

Graph freeze(const Graph& graph, std::span<const Tensor> params, std::vector<bool>* frozen) {
  frozen->assign(graph.inputs.size(), false);
  return rewrite(
      graph, [](Builder& b, Node&& node, ValueId) { return b.add(std::move(node)); },
      [&](Builder& b, std::vector<ValueId>& map) {
        for (size_t i = 0; i < graph.inputs.size() && i < params.size(); ++i) {
          if (!params[i].data) continue;
          const ValueId v = graph.inputs[i].value;
          const ValueId constant = frozen_param(b, graph.type(v), graph.inputs[i], params[i]);
          if (constant == kNoValue) continue;
          map[v] = constant;
          (*frozen)[i] = true;
        }
      });
}

// A graph with its groups built.
struct Built {
  Graph graph;
  PlanSource source;
  int64_t nodes = 0, nodes_fused = 0, kernels = 0, kernels_compiled = 0;
};

Status build(const Graph& from, const std::vector<Backend*>& backends, Built& built) {
  Placement placement;
  placement.backend = [&](const Graph& at, ValueId v) {
    const Op& row = op(at.node(v).op);
    if (row.kind == Kind::input || row.view) return std::string();
    Backend* b = best_bid(backends, at, v);
    // A body is preferred to the slow interpreter; what has neither stays for the error below.
    if (b && b->name() == "reference" && row.body) return std::string();
    return b ? std::string(b->name()) : std::string();
  };
  placement.rules = [&](const Graph& at) {
    FuseRules rules;
    rules.loops = "cpu";
    for (Backend* b : backends)
      if (b->name() == "reference") rules.last_resort = "reference";
    rules.backend = [&](ValueId v) {
      Backend* b = best_bid(backends, at, v);
      return b ? std::string(b->name()) : std::string("none");
    };
    rules.join = [&](const std::string& backend, std::span<const ValueId> members, ValueId v,
                     std::string* why) {
      Backend* b = find_backend(backend);
      Bid bid = b ? b->absorb(at, members, v) : Bid{};
      *why = bid.why;
      return bid.yes;
    };
    return rules;
  };
  built.graph = form_groups(from, placement);
  const Graph& g = built.graph;
  auto members = members_of_groups(g);

  std::vector<Layout> layouts(g.nodes.size());
  std::vector<bool> materialised(g.nodes.size(), false);
  PlanSource& source = built.source;
  source.graph = &built.graph;
  source.input_of.assign(g.nodes.size(), -1);
  source.output_of.assign(g.nodes.size(), -1);
  auto store = [&](ValueId v, const std::optional<Dims>& strides) {
    Dims row_major = dense_strides(*g.dims, g.type(v).shape);
    materialised[v] = true;
    layouts[v] = {strides ? *strides : row_major, !strides || *strides == row_major};
  };
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    source.input_of[g.inputs[i].value] = static_cast<int>(i);
    store(g.inputs[i].value, g.inputs[i].strides);
  }
  for (ValueId v = 0; v < g.nodes.size(); ++v)
    if (g.node(v).op == ops::constant && g.node(v).group < 0) store(v, std::nullopt);
  const Uses uses(g);
  for (auto& group : members)
    for (ValueId v : outputs_of(g, uses, group)) store(v, std::nullopt);
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    source.output_of[g.outputs[i].value] = static_cast<int>(i);
    store(g.outputs[i].value, g.outputs[i].strides);
  }

  const BuildContext context{g, layouts, materialised};
  source.executables.resize(members.size());
  std::map<std::string, std::vector<size_t>> by_backend;
  for (size_t i = 0; i < members.size(); ++i) by_backend[g.groups[i].backend].push_back(i);
  for (auto& [name, list] : by_backend) {
    Backend* b = find_backend(name);
    if (!b) {
      const ValueId v = members[list[0]][0];
      std::string why =
          g.value_name(v) + " = " + std::string(op(g.node(v).op).name) + ": no back end runs it";
      for (Backend* other : backends) why += "; " + std::string(other->name()) + ": " + other->bid(g, v).why;
      return unsupported(why);
    }
    std::vector<std::vector<ValueId>> groups;
    for (size_t i : list) groups.push_back(members[i]);
    TENON_ASSIGN(auto executables, b->build(context, groups));
    for (size_t k = 0; k < list.size(); ++k) source.executables[list[k]] = std::move(executables[k]);
  }
  for (auto& m : members) {
    built.nodes += static_cast<int64_t>(m.size());
    if (m.size() > 1) built.nodes_fused += static_cast<int64_t>(m.size());
  }
  for (auto& e : source.executables) {
    built.kernels += std::max(1, e->kernel_count());
    built.kernels_compiled += e->kernels_compiled;
  }
  return {};
}

// Runs the constant part once; its outputs become the data of main's constants.
Status run_init(const Split& split, Graph& main, const std::vector<Backend*>& backends, Parallel& parallel,
                std::vector<std::unique_ptr<Arena>>& storage, Built* stats) {
  static std::atomic<uint64_t> next_id{uint64_t{1} << 32};
  if (split.folded.empty()) return {};
  Built init;
  TENON_TRY(build(split.init, backends, init));
  TENON_ASSIGN(
      std::unique_ptr<Plan> plan,
      Plan::make(init.source, std::vector<int64_t>(main.dims->symbol_count(), 0), parallel.threads()));
  std::vector<void*> outputs;
  for (size_t i = 0; i < split.folded.size(); ++i) {
    const Node& node = main.node(split.folded[i]);
    const int64_t bytes = plan->outputs[i].elements * size_of(node.type.dtype);
    storage.push_back(std::make_unique<Arena>(bytes));
    auto& data = *attr_as<std::shared_ptr<ConstantData>>(node, "data");
    data.bytes = storage.back()->data();
    data.size = static_cast<size_t>(bytes);
    data.id = next_id.fetch_add(1);
    outputs.push_back(storage.back()->data());
  }
  ArenaPool arenas;
  plan->run(nullptr, outputs.data(), arenas, parallel);
  stats->kernels_compiled += init.kernels_compiled;
  return {};
}

}  // namespace

struct Program::Impl {
  Graph source;  // as the host gave it
  ProgramOptions options;
  std::vector<Backend*> backends;
  std::vector<bool> frozen;
  std::vector<std::unique_ptr<Arena>> folded;  // bytes of constants computed once
  Built built;
  Binder binder;
  double compile_ms = 0;
  ArenaPool arenas;

  std::mutex mutex;  // guards plans and last
  std::map<std::vector<int64_t>, std::shared_ptr<const Plan>> plans;
  std::shared_ptr<const Plan> last;
  std::atomic<int64_t> hits{0};

  Parallel& parallel() const { return options.parallel ? *options.parallel : default_parallel(); }
  int threads() const {
    return options.threads > 0 ? std::min(options.threads, parallel().threads()) : parallel().threads();
  }

  Status make(std::span<const Tensor> params) {
    const auto start = Clock::now();
    arenas.set_allocator(options.allocator);
    if (options.freeze) TENON_TRY(check_params(source, params));
    Split split = split_constants(
        optimize(freeze(source, options.freeze ? params : std::span<const Tensor>(), &frozen)));
    TENON_TRY(run_init(split, split.main, backends, parallel(), folded, &built));
    TENON_TRY(build(split.main, backends, built));
    TENON_ASSIGN(binder, Binder::make(source));
    compile_ms += ms_since(start);
    return {};
  }
  Result<std::shared_ptr<const Plan>> plan(std::span<const int64_t> values);
};

Program::Program() : impl_(std::make_unique<Impl>()) {}
Program::~Program() = default;

Result<std::shared_ptr<const Plan>> Program::Impl::plan(std::span<const int64_t> values) {
  std::lock_guard lock(mutex);
  if (last && std::equal(values.begin(), values.end(), last->symbols().begin(), last->symbols().end())) {
    hits.fetch_add(1, std::memory_order_relaxed);
    return last;
  }
  std::vector<int64_t> symbols(values.begin(), values.end());
  auto it = plans.find(symbols);
  if (it != plans.end()) {
    hits.fetch_add(1, std::memory_order_relaxed);
    last = it->second;
    return last;
  }
  // Conditions that symbols left open: slice bounds, windows, something to gather from.
  if (!symbols.empty()) TENON_TRY(at_sizes(source, symbols).status());
  TENON_ASSIGN(std::unique_ptr<Plan> made, Plan::make(built.source, symbols, threads()));
  if (plans.size() >= options.max_plans) plans.clear();
  last = std::shared_ptr<const Plan>(std::move(made));
  plans[symbols] = last;
  return last;
}

Result<std::shared_ptr<Program>> Program::make(const Graph& graph, const ProgramOptions& options,
                                               std::span<const Tensor> params) {
  TENON_TRY(verify(graph));
  for (const std::string& name : options.backends)
    if (!find_backend(name)) return invalid("no back end is called " + name);
  auto program = std::shared_ptr<Program>(new Program());
  program->impl_->source = graph;
  program->impl_->options = options;
  program->impl_->backends = chosen_backends(options);
  TENON_TRY(program->impl_->make(params));
  return program;
}

Status Program::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  Impl& p = *impl_;
  constexpr size_t kOnStack = 32;
  const auto count = static_cast<size_t>(p.source.dims->symbol_count());
  int64_t symbols_stack[kOnStack];
  std::vector<int64_t> symbols_heap(count > kOnStack ? count : 0);
  const std::span<int64_t> symbols(count > kOnStack ? symbols_heap.data() : symbols_stack, count);
  TENON_TRY(p.binder.solve(p.source, p.frozen, inputs, symbols));
  TENON_ASSIGN(std::shared_ptr<const Plan> plan, p.plan(symbols));
  TENON_TRY(check_tensors(p.source, *plan, p.frozen, inputs, outputs));
  void *in_stack[64], *out_stack[64];
  std::vector<void*> in_heap, out_heap;
  void **in = in_stack, **out = out_stack;
  if (inputs.size() > 64) in_heap.resize(inputs.size()), in = in_heap.data();
  if (outputs.size() > 64) out_heap.resize(outputs.size()), out = out_heap.data();
  for (size_t i = 0; i < inputs.size(); ++i) in[i] = inputs[i].data;
  for (size_t i = 0; i < outputs.size(); ++i) out[i] = outputs[i].data;
  plan->run(in, out, p.arenas, p.parallel());
  return {};
}

Status Program::update_params(std::span<const Tensor> params) {
  auto fresh = std::make_unique<Impl>();
  fresh->source = impl_->source;
  fresh->options = impl_->options;
  fresh->backends = impl_->backends;
  TENON_TRY(fresh->make(params));
  impl_ = std::move(fresh);
  return {};
}

std::string Program::explain(bool json) const {
  std::lock_guard lock(impl_->mutex);
  return tenon::explain(impl_->built.graph, impl_->built.source, impl_->last.get(), json);
}

ProgramStats Program::stats() const {
  std::lock_guard lock(impl_->mutex);
  ProgramStats s;
  s.nodes = impl_->built.nodes;
  s.nodes_fused = impl_->built.nodes_fused;
  s.kernels = impl_->built.kernels;
  s.kernels_compiled = impl_->built.kernels_compiled;
  s.steps = static_cast<int64_t>(impl_->built.source.executables.size());
  s.workspace_bytes = impl_->last ? impl_->last->workspace_bytes() : 0;
  s.plans = static_cast<int64_t>(impl_->plans.size());
  s.plan_hits = impl_->hits.load();
  s.compile_ms = impl_->compile_ms;
  return s;
}

const Graph& Program::graph() const { return impl_->source; }

}  // namespace tenon
