// See program.h. Tested by tests/run_test.cc.
#include "src/runtime/program.h"

#include <chrono>
#include <cstring>
#include <map>

#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/ir/text.h"
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

// Frozen params become constants. A param whose storage is a permutation of dense rows becomes a dense constant and a
// transpose; any other layout stays an input.
Graph freeze(const Graph& graph, std::span<const Tensor> params, std::vector<bool>* frozen) {
  frozen->assign(graph.inputs.size(), false);
  std::map<ValueId, size_t> input_of;
  for (size_t i = 0; i < graph.inputs.size(); ++i) input_of[graph.inputs[i].value] = i;
  static std::atomic<uint64_t> next_id{1};
  Graph out = rewrite(graph, [&](Builder& b, Node&& node, ValueId old) -> ValueId {
    auto it = input_of.find(old);
    if (it == input_of.end() || it->second >= params.size() || !params[it->second].data) return b.add(std::move(node));
    const Tensor& t = params[it->second];
    const InputBinding& binding = graph.inputs[it->second];
    const Dims& shape = node.type.shape;
    std::vector<int64_t> perm(shape.size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    for (Dim d : shape)
      if (!d.is_const()) return b.add(std::move(node));
    if (binding.strides) {
      for (Dim d : *binding.strides)
        if (!d.is_const()) return b.add(std::move(node));
      auto stride = [&](int64_t a) { return (*binding.strides)[a].value(); };
      std::stable_sort(perm.begin(), perm.end(), [&](int64_t a, int64_t c) { return stride(a) > stride(c); });
      int64_t step = 1;
      for (size_t k = perm.size(); k-- > 0;) {
        if (shape[perm[k]] != Dim(1) && stride(perm[k]) != step) return b.add(std::move(node));
        step *= shape[perm[k]].value();
      }
    }
    Dims stored;
    int64_t elements = 1;
    for (int64_t a : perm) stored.push_back(shape[a]), elements *= shape[a].value();
    auto data = std::make_shared<ConstantData>();
    data->bytes = t.data;
    data->size = static_cast<size_t>(elements) * size_of(node.type.dtype);
    data->id = next_id.fetch_add(1);
    (*frozen)[it->second] = true;
    // The input itself stays declared, so that positions do not move; nothing reads it.
    std::string name = node.name;
    node.name = name.empty() ? "" : name + ".unused";
    Node declared = node;
    const ValueId kept = b.add(std::move(declared));
    (void)kept;
    ValueId c = b(*find_op("constant"), {}, {{"dtype", node.type.dtype}, {"shape", stored}, {"data", data}});
    Dims back(perm.size());
    bool moved = false;
    for (size_t k = 0; k < perm.size(); ++k) {
      back[perm[k]] = Dim(static_cast<int64_t>(k));
      moved = moved || perm[k] != static_cast<int64_t>(k);
    }
    return moved ? b(*find_op("transpose"), {c}, {{"perm", back}}) : c;
  });
  // rewrite() mapped frozen inputs to their constants: point the bindings back at the declared inputs.
  std::vector<ValueId> declared;
  for (ValueId v = 0; v < out.nodes.size(); ++v)
    if (op(out.node(v).op).name == "input") declared.push_back(v);
  TENON_CHECK(declared.size() == out.inputs.size(), "inputs stay declared");
  std::vector<size_t> by_position(graph.inputs.size());
  for (size_t i = 0; i < by_position.size(); ++i) by_position[i] = i;
  std::sort(by_position.begin(), by_position.end(),
            [&](size_t a, size_t b) { return graph.inputs[a].value < graph.inputs[b].value; });
  for (size_t k = 0; k < declared.size(); ++k) {
    InputBinding& binding = out.inputs[by_position[k]];
    binding.value = declared[k];
  }
  return out;
}

}  // namespace

struct Program::Impl {
  Graph source;  // as the host gave it
  ProgramOptions options;
  std::vector<Backend*> backends;
  std::vector<bool> frozen;
  Split split;
  Graph main;  // grouped
  PlanSource plan_source;
  Binder binder;
  std::vector<std::shared_ptr<void>> folded_bytes;
  std::shared_ptr<Program> init;
  ProgramStats stats;
  ArenaPool arenas;

  std::mutex mutex;  // plans
  std::map<std::vector<int64_t>, std::shared_ptr<const Plan>> plans;
  std::shared_ptr<const Plan> last;
  std::atomic<int64_t> hits{0};

  Parallel& parallel() const { return options.parallel ? *options.parallel : default_parallel(); }

  Status build(std::span<const Tensor> params);
  Status run_init();
  Result<std::shared_ptr<const Plan>> plan(std::vector<int64_t> symbols);
};

Program::Program() : impl_(std::make_unique<Impl>()) {}
Program::~Program() = default;

Status Program::Impl::build(std::span<const Tensor> params) {
  const auto start = Clock::now();
  Graph g = freeze(source, options.freeze ? params : std::span<const Tensor>(), &frozen);
  g = optimize(g);
  split = split_constants(g);
  TENON_TRY(run_init());

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
    rules.backend = [&](ValueId v) {
      Backend* b = best_bid(backends, at, v);
      return b ? std::string(b->name()) : std::string("none");
    };
    rules.join = [&](const std::string& backend, std::span<const ValueId> members, ValueId v, std::string* why) {
      Backend* b = find_backend(backend);
      Bid bid = b ? b->absorb(at, members, v) : Bid{};
      *why = bid.why;
      return bid.yes;
    };
    return rules;
  };
  main = form_groups(split.main, placement);
  auto members = members_of_groups(main);

  std::vector<Layout> layouts(main.nodes.size());
  std::vector<bool> materialised(main.nodes.size(), false);
  plan_source.graph = &main;
  plan_source.executables.clear();
  plan_source.input_of.assign(main.nodes.size(), -1);
  plan_source.output_of.assign(main.nodes.size(), -1);
  auto store = [&](ValueId v, const std::optional<Dims>& strides) {
    materialised[v] = true;
    Dims dense(main.type(v).shape.size(), Dim(1));
    for (size_t i = dense.size(); i-- > 1;) dense[i - 1] = main.dims->mul(dense[i], main.type(v).shape[i]);
    layouts[v] = {strides ? *strides : dense, !strides || *strides == dense};
  };
  for (size_t i = 0; i < main.inputs.size(); ++i) {
    plan_source.input_of[main.inputs[i].value] = static_cast<int>(i);
    store(main.inputs[i].value, main.inputs[i].strides);
  }
  for (ValueId v = 0; v < main.nodes.size(); ++v)
    if (op(main.node(v).op).name == "constant" && main.node(v).group < 0) store(v, std::nullopt);
  const Uses uses(main);
  for (auto& group : members)
    for (ValueId v : outputs_of(main, uses, group)) store(v, std::nullopt);
  for (size_t i = 0; i < main.outputs.size(); ++i) {
    const ValueId v = main.outputs[i].value;
    if (plan_source.output_of[v] < 0) {
      plan_source.output_of[v] = static_cast<int>(i);
      store(v, main.outputs[i].strides);
    }
  }
  const BuildContext context{main, layouts, materialised};
  plan_source.executables.resize(members.size());
  std::map<std::string, std::vector<size_t>> by_backend;
  for (size_t i = 0; i < members.size(); ++i) by_backend[main.groups[i].backend].push_back(i);
  for (auto& [name, list] : by_backend) {
    Backend* b = find_backend(name);
    if (!b) {
      const Node& n = main.node(members[list[0]][0]);
      std::string why;
      for (Backend* other : backends) why += "; " + std::string(other->name()) + ": " + other->bid(main, members[list[0]][0]).why;
      return unsupported(main.value_name(members[list[0]][0]) + " = " + std::string(op(n.op).name) +
                         ": no back end runs it" + why);
    }
    std::vector<std::vector<ValueId>> groups;
    for (size_t i : list) groups.push_back(members[i]);
    TENON_ASSIGN(auto built, b->build(context, groups));
    for (size_t k = 0; k < list.size(); ++k) plan_source.executables[list[k]] = std::move(built[k]);
  }
  TENON_ASSIGN(binder, Binder::make(source));

  stats.nodes = static_cast<int64_t>(source.nodes.size() - source.inputs.size());
  stats.nodes_fused = stats.kernels = stats.kernels_compiled = 0;
  for (auto& m : members)
    if (m.size() > 1) stats.nodes_fused += static_cast<int64_t>(m.size());
  for (auto& e : plan_source.executables) {
    stats.kernels += std::max(1, e->kernel_count());
    stats.kernels_compiled += e->kernels_compiled;
  }
  stats.steps = static_cast<int64_t>(plan_source.executables.size());
  stats.compile_ms += ms_since(start);
  return {};
}

// Computes what depends on constants only.
Status Program::Impl::run_init() {
  folded_bytes.clear();
  if (split.folded.empty()) return {};
  ProgramOptions init_options = options;
  init_options.freeze = false;
  // The init graph is constant itself: it must not be split again.
  auto program = std::shared_ptr<Program>(new Program());
  program->impl_->source = split.init;
  program->impl_->options = init_options;
  program->impl_->backends = backends;
  return program->impl_->build_constants(split, folded_bytes, &stats);
}

Result<std::shared_ptr<const Plan>> Program::Impl::plan(std::vector<int64_t> symbols) {
  std::lock_guard lock(mutex);
  if (last && last->symbols() == symbols) {
    hits.fetch_add(1, std::memory_order_relaxed);
    return last;
  }
  auto it = plans.find(symbols);
  if (it != plans.end()) {
    hits.fetch_add(1, std::memory_order_relaxed);
    last = it->second;
    return last;
  }
  TENON_ASSIGN(std::unique_ptr<Plan> made, Plan::make(plan_source, symbols, parallel().threads()));
  if (plans.size() >= options.max_plans) plans.clear();
  last = std::shared_ptr<const Plan>(std::move(made));
  plans[symbols] = last;
  stats.workspace_bytes = last->workspace_bytes();
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
  TENON_TRY(program->impl_->build(params));
  return program;
}

Status Program::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  Impl& p = *impl_;
  std::vector<int64_t> symbols;
  TENON_TRY(p.binder.solve(p.source, inputs, &symbols));
  TENON_ASSIGN(std::shared_ptr<const Plan> plan, p.plan(std::move(symbols)));
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
  TENON_TRY(fresh->build(params));
  impl_ = std::move(fresh);
  return {};
}

std::string Program::explain(bool json) const {
  const Plan* plan = impl_->last.get();
  return tenon::explain(impl_->source, impl_->main, impl_->plan_source, plan, stats(), json);
}

ProgramStats Program::stats() const {
  ProgramStats s = impl_->stats;
  s.plans = static_cast<int64_t>(impl_->plans.size());
  s.plan_hits = impl_->hits.load();
  return s;
}

const Graph& Program::graph() const { return impl_->source; }

}  // namespace tenon
