// See program.h. Tested by tests/unit/runtime/run_test.cc.
#include "src/runtime/program.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <stdexcept>
#include <thread>

#include "src/base/env.h"
#include "src/base/no_fork.h"
#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/ir/verify.h"
#include "src/ops/names.h"
#include "src/passes/pipeline.h"
#include "src/runtime/bind.h"
#include "src/runtime/difference.h"
#include "src/runtime/explain.h"
#include "src/runtime/fork.h"
#include "src/runtime/plan.h"
#include "src/runtime/plan_log.h"
#include "src/runtime/query.h"
#include "src/runtime/shape_guards.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<Backend*> backends_of(int device_type) {
  std::vector<Backend*> list;
  for (Backend* b : all_backends())
    if (b->device_type() == device_type && b->runs_unasked()) list.push_back(b);
  return list;
}

std::vector<Backend*> chosen_backends(const ProgramOptions& options) {
  std::vector<Backend*> chosen;
  if (options.backends.empty()) {
    chosen = backends_of(options.device.type);
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
  data->id = next_constant_id();
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

}  // namespace

// A graph with its groups built.
struct Built {
  Graph graph;
  PlanSource source;
  int64_t nodes = 0, nodes_fused = 0, kernels = 0, kernels_compiled = 0;
};

namespace {

Status build(const Graph& from, const std::vector<Backend*>& backends, const Allocator& allocator,
             DeviceId device, const Without& without, Built& built) {
  Placement placement;
  placement.without = without;
  placement.backend = [&](const Graph& at, ValueId v) {
    const Op& row = op(at.node(v).op);
    if (row.kind == Kind::input || row.view) return std::string();
    Backend* b = best_bid(backends, at, v);
    if (!b && host_keeps(at.node(v), device.type)) return std::string("none");
    // A body is preferred to the slow interpreter; what has neither stays for the error below.
    if (b && !b->runs_unasked() && row.body) return std::string();
    return b ? std::string(b->name()) : std::string();
  };
  placement.rules = [&](const Graph& at) {
    FuseRules rules;
    for (Backend* b : backends) {
      if (b->runs_loops()) rules.loops = b->name();
      if (!b->runs_unasked()) rules.last_resort = b->name();
    }
    auto best = std::make_shared<std::vector<Backend*>>(at.nodes.size());
    rules.backend = [&, best](ValueId v) {
      Backend*& b = (*best)[v];
      if (!b) b = best_bid(backends, at, v);
      return b ? std::string(b->name()) : std::string("none");
    };
    auto uses = std::make_shared<Uses>(at);
    rules.reads = [&](const std::string& backend, ValueId node, ValueId operand) {
      Backend* b = find_backend(backend);
      return !b || b->reads(at, node, operand);
    };
    rules.join = [&, uses](const std::string& backend, std::span<const ValueId> members, ValueId v,
                           std::string* why) {
      Backend* b = find_backend(backend);
      Bid bid = b ? b->absorb(at, *uses, members, v) : Bid{};
      *why = bid.why;
      return bid.yes;
    };
    return rules;
  };
  placement.arrange = [&](Builder& b, Node&& node, const Graph& at, ValueId v) {
    const Kind kind = op(node.op).kind;
    const bool may = kind == Kind::contract || kind == Kind::composite;
    const Backend* best = may ? best_bid(backends, at, v) : nullptr;
    return best ? best->arrange(b, std::move(node)) : b.add(std::move(node));
  };
  built.graph = form_groups(from, placement);
  const Graph& g = built.graph;
  auto members = members_of_groups(g);

  std::vector<Layout> layouts(g.nodes.size());
  std::vector<bool> materialised(g.nodes.size(), false);
  PlanSource& source = built.source;
  source.graph = &built.graph;
  source.find_sized();
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
    store(g.outputs[i].value, output_strides(g, g.outputs[i]));
  }

  const BuildContext context{g, layouts, materialised, allocator, device};
  source.executables.resize(members.size());
  std::map<std::string, std::vector<size_t>> by_backend;
  for (size_t i = 0; i < members.size(); ++i) by_backend[g.groups[i].backend].push_back(i);
  for (auto& [name, list] : by_backend) {
    Backend* b = find_backend(name);
    if (!b) {
      const ValueId v = members[list[0]][0];
      std::string why =
          g.value_name(v) + " = " + std::string(op(g.node(v).op).name) + ": no back end runs it";
      const std::string& uncovered = g.groups[list[0]].why;
      if (!uncovered.empty()) why += "; " + uncovered;
      for (Backend* other : backends) why += "; " + std::string(other->name()) + ": " + other->bid(g, v).why;
      return unsupported(why);
    }
    std::vector<std::vector<ValueId>> groups;
    for (size_t i : list) groups.push_back(members[i]);
    TENON_ASSIGN(auto executables, b->build(context, groups));
    std::vector<Executable*>& all = source.by_backend.emplace_back(b, std::vector<Executable*>()).second;
    for (size_t k = 0; k < list.size(); ++k) {
      all.push_back(executables[k].get());
      source.executables[list[k]] = std::move(executables[k]);
    }
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
                const Allocator& allocator, const Without& without,
                std::vector<std::unique_ptr<Arena>>& storage, Built* stats) {
  if (split.folded.empty()) return {};
  Built init;
  TENON_TRY(build(split.init, backends, allocator, {}, without, init));
  TENON_ASSIGN(
      std::unique_ptr<Plan> plan,
      Plan::make(init.source, std::vector<int64_t>(main.dims->symbol_count(), 0), parallel.threads()));
  std::vector<void*> outputs;
  for (size_t i = 0; i < split.folded.size(); ++i) {
    const Node& node = main.node(split.folded[i]);
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

}  // namespace

// Tables of sizes are not locked, and a host may use its graph from several threads.
Graph with_own_sizes(const Graph& graph) {
  Graph own = graph;
  own.dims = std::make_shared<DimTable>(*graph.dims);
  return own;
}

// All that frozen params can change; replaced as a whole by update_params.
struct Program::Impl {
  const Graph source;  // with sizes of its own: passes add to them
  const int64_t number;
  const ProgramOptions options;
  std::vector<Backend*> backends;
  std::vector<bool> frozen;
  std::vector<std::unique_ptr<Arena>> folded;  // bytes of constants computed once
  Built built;
  Binder binder;
  Conditions conditions;
  DeviceRuntime* runtime = nullptr;  // null: the CPU
  std::vector<std::shared_ptr<void>> uploaded;
  std::atomic<int64_t> compiled_for_plans{0};
  double compile_ms = 0;
  std::shared_ptr<Specialization> specialize;
  ArenaPool arenas;
  PlanCache plans;

  Impl(const Graph& graph, int64_t id, const ProgramOptions& given)
      : source(with_own_sizes(graph)),
        number(id),
        options(given),
        backends(chosen_backends(given)),
        specialize(given.specialize == SpecializeMode::off
                       ? nullptr
                       : std::make_shared<Specialization>(given.specialize)),
        arenas(given.allocator),
        plans(given.limits) {}

  Parallel& parallel() const { return options.parallel ? *options.parallel : default_parallel(); }
  DeviceMemory* memory() const {
    return !runtime ? nullptr : options.device_memory ? options.device_memory : &runtime->pool();
  }
  int threads() const {
    return options.threads > 0 ? std::min(options.threads, parallel().threads()) : parallel().threads();
  }

  Status make(std::span<const Tensor> params) {
    const NoFork no_fork;
    const auto start = Clock::now();
    if (options.freeze) TENON_TRY(check_params(source, params));
    if (!options.device.is_cpu()) TENON_TRY(check_for_device());
    Split split = split_constants(optimize(
        freeze(source, options.freeze ? params : std::span<const Tensor>(), &frozen), options.without));
    if (options.device.is_cpu()) {
      TENON_TRY(run_init(split, split.main, backends, parallel(), options.allocator, options.without, folded,
                         &built));
    } else {
      for (Backend* b : backends) {
        TENON_ASSIGN(DeviceRuntime * of_backend, b->runtime(options.device.index));
        if (!runtime) runtime = of_backend;
      }
      if (!runtime)
        return unsupported("no back end runs on device type " + std::to_string(options.device.type));
      TENON_TRY(run_init(split, split.main, backends_of(DeviceId::kCpu), default_parallel(), {},
                         options.without, folded, &built));
    }
    TENON_TRY(build(split.main, backends, options.allocator, options.device, options.without, built));
    if (runtime) {
      built.source.graphs = options.graphs;
      TENON_TRY(upload());
    }
    TENON_ASSIGN(binder, Binder::make(source));
    conditions = Conditions(source);
    compile_ms += ms_since(start);
    log_program(number, source, built.kernels, built.kernels_compiled, compile_ms);
    return {};
  }
  Status check_for_device() const {
    if (options.freeze) return unsupported("params are packed for programs of the CPU only");
    const Uses uses(source);
    for (const InputBinding& i : source.inputs)
      if (i.symbol && (!uses.users(i.value).empty() || uses.is_output(i.value)))
        return unsupported(source.value_name(i.value) +
                           " defines a symbol, on the host; a device cannot read it");
    return {};
  }
  // Copies the constants that steps read to the device.
  Status upload() {
    const Graph& g = built.graph;
    built.source.constant_at.resize(g.nodes.size());
    for (ValueId v = 0; v < g.nodes.size(); ++v) {
      if (g.node(v).op != ops::constant || g.node(v).group >= 0) continue;
      const auto& data = *attr_as<std::shared_ptr<ConstantData>>(g.node(v), "data");
      const auto bytes = static_cast<int64_t>(data.size);
      if (bytes == 0) continue;
      TENON_ASSIGN(std::shared_ptr<void> copy, runtime->keep(data.bytes, bytes));
      built.source.constant_at[v] = copy.get();
      uploaded.push_back(std::move(copy));
    }
    return {};
  }
  Result<PlanCache::Use> make_plan(std::span<const int64_t> symbols) {
    const std::optional<PlanCache::Watch> watch = watch_plans(number, source, binder);
    return plans.find_or_make(
        symbols,
        [&]() -> Result<std::unique_ptr<Plan>> {
          TENON_TRY(conditions.check(symbols));
          TENON_ASSIGN(auto plan,
                       Plan::make(built.source, {symbols.begin(), symbols.end()}, threads(), specialize));
          compiled_for_plans += plan->kernels_compiled;
          return plan;
        },
        watch ? &*watch : nullptr);
  }
};

namespace {

std::atomic<int64_t> next_program{1};

// Sizes that turn out too large, and memory that is not there, are no bugs.
template <class Body>
Status caught(const Graph& graph, Body&& body) {
  try {
    return body();
  } catch (const StatusError& e) {
    return e.status.at("graph @" + graph.name);
  } catch (const std::bad_alloc&) {
    return environment("graph @" + graph.name + ": out of memory");
  } catch (const std::length_error&) {
    return environment("graph @" + graph.name + ": out of memory");
  }
}

}  // namespace

Program::Program(const Graph& graph, const ProgramOptions& options)
    : source_(with_own_sizes(graph)), number_(next_program.fetch_add(1)), options_(options) {}
Program::~Program() { delete impl_.load(); }

Result<std::shared_ptr<Program>> Program::make(const Graph& graph, const ProgramOptions& options,
                                               std::span<const Tensor> params) {
  TENON_TRY(verify(graph));
  for (const std::string& name : options.backends)
    if (const Backend* b = find_backend(name); !b || b->device_type() != options.device.type)
      return invalid(b ? "back end " + name + " runs on another type of device"
                       : "no back end is called " + name);
  TENON_TRY(check_without(options.without));
  if (options.verify < 0) return invalid("verify is negative: " + std::to_string(options.verify));
  if (options.verify > 0 && !options.device.is_cpu()) return unsupported("runs are verified on the CPU only");
  auto program = std::shared_ptr<Program>(new Program(graph, options));
  watch_forks();
  warn_of_env();
  auto impl = std::make_unique<Impl>(program->source_, program->number_, options);
  TENON_TRY(caught(graph, [&] { return where_threads_are([&] { return impl->make(params); }); }));
  program->impl_.store(impl.release());
  if (options.verify > 0) program->keep_params(params);
  return program;
}

Status Program::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream) {
  if (verified_ < options_.verify) return caught(source_, [&] { return run_verified(inputs, outputs); });
  return caught(source_,
                [&] { return where_threads_are([&] { return run_here(inputs, outputs, stream); }); });
}

Status Program::run_here(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream) {
  const Pin<Impl> pin(impl_);
  Impl& p = *pin;
  constexpr size_t kOnStack = 32;
  const auto count = static_cast<size_t>(source_.dims->symbol_count());
  int64_t symbols_stack[kOnStack];
  std::vector<int64_t> symbols_heap(count > kOnStack ? count : 0);
  const std::span<int64_t> symbols(count > kOnStack ? symbols_heap.data() : symbols_stack, count);
  TENON_TRY(check_devices(source_, p.options.device, p.frozen, inputs, outputs));
  if (p.runtime)
    TENON_TRY(p.runtime->check_stream(stream, false));
  else if (stream)
    return invalid("a stream is given, and the program runs on the CPU");
  TENON_TRY(p.binder.solve(source_, p.frozen, inputs, symbols));
  PlanCache::Use plan = p.plans.find(symbols);
  if (!plan) {
    TENON_TRY(p.binder.check_inputs(source_, p.frozen, inputs, symbols));
    if (p.runtime) TENON_TRY(p.runtime->check_stream(stream, true));
    TENON_ASSIGN(plan, p.make_plan(symbols));
  }
  TENON_TRY(check_tensors(source_, p.binder, *plan, p.frozen, inputs, outputs));
  void *in_stack[64], *out_stack[64];
  std::vector<void*> in_heap, out_heap;
  void **in = in_stack, **out = out_stack;
  if (inputs.size() > 64) in_heap.resize(inputs.size()), in = in_heap.data();
  if (outputs.size() > 64) out_heap.resize(outputs.size()), out = out_heap.data();
  for (size_t i = 0; i < inputs.size(); ++i) in[i] = inputs[i].data;
  for (size_t i = 0; i < outputs.size(); ++i) out[i] = outputs[i].data;
  return plan->run(in, out, p.arenas, {p.parallel(), stream, p.memory(), p.runtime});
}

Status Program::run_verified(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  for (const Tensor& out : outputs)
    for (const Tensor& in : inputs)
      if (out.data && out.data == in.data)
        return invalid("an output in the memory of an input, in a run that is verified");
  TENON_TRY(where_threads_are([&] { return run_here(inputs, outputs, nullptr); }));
  ++verified_;
  std::vector<HostTensor> given, got;
  {
    std::lock_guard lock(update_);
    for (size_t i = 0; i < inputs.size(); ++i)
      given.push_back(i < params_.size() && params_[i] ? *params_[i] : host_copy(inputs[i]));
  }
  for (const Tensor& out : outputs) got.push_back(host_copy(out));
  TENON_ASSIGN(const std::string difference, difference_of(source_, given, got));
  if (difference.empty()) return {};
  TENON_ASSIGN(const std::optional<Difference> smallest, find_difference(source_, given, options_));
  return Status(Code::internal, "a run that was verified is wrong: " + difference + "\n" +
                                    (smallest ? report(*smallest) : "another run of it is right\n"));
}

void Program::keep_params(std::span<const Tensor> params) {
  params_.clear();
  for (const Tensor& t : params)
    params_.push_back(t.data && options_.freeze ? std::optional(host_copy(t)) : std::nullopt);
}

Status Program::update_params(std::span<const Tensor> params) {
  std::unique_ptr<Impl> former;
  TENON_TRY(where_threads_are([&]() -> Status {
    const NoFork no_fork;
    std::lock_guard lock(update_);
    auto fresh = std::make_unique<Impl>(source_, number_, options_);
    TENON_TRY(caught(source_, [&] { return fresh->make(params); }));
    former.reset(impl_.exchange(fresh.release()));
    if (options_.verify > 0) keep_params(params);
    return {};
  }));
  // Outside of both: a run that holds the former may be about to make a plan.
  while (pinned(former.get())) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return {};
}

void Program::set_limits(const PlanLimits& limits) {
  Pin<Impl> p;
  {
    const NoFork no_fork;
    std::lock_guard lock(update_);
    options_.limits = limits;
    p = Pin<Impl>(impl_);
  }
  const std::optional<PlanCache::Watch> watch = watch_plans(number_, source_, p->binder);
  p->plans.set_limits(limits, watch ? &*watch : nullptr);
}

std::string Program::explain(bool json) const {
  const NoFork no_fork;
  const Pin<Impl> p(impl_);
  const PlanCache::Use newest = p->plans.newest();
  return tenon::explain(p->built.graph, p->built.source, newest ? &*newest : nullptr, json);
}

ProgramStats Program::stats() const {
  const Pin<Impl> p(impl_);
  const PlanCache::Use newest = p->plans.newest();
  ProgramStats s;
  s.nodes = p->built.nodes;
  s.nodes_fused = p->built.nodes_fused;
  s.kernels = p->built.kernels;
  s.kernels_compiled = p->built.kernels_compiled + p->compiled_for_plans;
  s.reference_steps = p->built.source.reference_steps();
  s.steps = static_cast<int64_t>(p->built.source.executables.size());
  s.workspace_bytes = newest ? newest->workspace_bytes() : 0;
  if (p->specialize) {
    s.specialized = p->specialize->kept;
    s.specialize_refused = p->specialize->refused;
  }
  s.plans = p->plans.stats();
  s.compile_ms = p->compile_ms;
  return s;
}

const Graph& Program::graph() const { return source_; }

}  // namespace tenon
