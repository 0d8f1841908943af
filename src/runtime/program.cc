// See program.h. Tested by tests/unit/runtime/run_test.cc.
#include "src/runtime/program.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <stdexcept>
#include <thread>

#include "src/backend/fork.h"
#include "src/base/env.h"
#include "src/base/no_fork.h"
#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/ir/verify.h"
#include "src/ops/rows/names.h"
#include "src/passes/pipeline.h"
#include "src/runtime/compile/compile.h"
#include "src/runtime/compile/shape_guards.h"
#include "src/runtime/difference.h"
#include "src/runtime/explain.h"
#include "src/runtime/plan/bind.h"
#include "src/runtime/plan/plan.h"
#include "src/runtime/plan/plan_log.h"
#include "src/runtime/profile.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A table of sizes has no lock, and a host may use its graph on several threads.
Graph with_own_sizes(const Graph& graph) {
  Graph own = graph;
  own.dims = std::make_shared<DimTable>(*graph.dims);
  return own;
}

}  // namespace

// Everything that frozen params can change. update_params replaces it as a whole.
struct Program::Impl {
  const Graph source;  // has its own table of sizes, to which passes add
  const int64_t number;
  const ProgramOptions options;
  std::unique_ptr<Compiled> compiled;
  Binder binder;
  ShapeGuards shape_guards;
  std::atomic<int64_t> compiled_for_plans{0};
  double compile_ms = 0;
  const std::shared_ptr<ArenaPool> arenas;
  PlanCache plans;

  Impl(const Graph& graph, int64_t id, const ProgramOptions& given)
      : source(with_own_sizes(graph)),
        number(id),
        options(given),
        arenas(ArenaPool::shared(given.allocator)),
        plans(given.limits) {}
  ~Impl() { arenas->release(); }  // the other programs may need less memory

  Parallel& parallel() const { return options.parallel ? *options.parallel : default_parallel(); }
  DeviceMemory* memory() const {
    if (!compiled->runtime) return nullptr;
    return options.device_memory ? options.device_memory : &compiled->runtime->pool();
  }
  int threads() const {
    return options.threads > 0 ? std::min(options.threads, parallel().threads()) : parallel().threads();
  }

  Status make(std::span<const Tensor> params) {
    const NoFork no_fork;
    const auto start = Clock::now();
    TENON_ASSIGN(compiled, compile(source, options, parallel(), params));
    TENON_ASSIGN(binder, Binder::make(source, compiled->frozen, options.device));
    shape_guards = ShapeGuards(source);
    compile_ms += ms_since(start);
    if (profiling()) profile_event("compile", number, source, start);
    log_program(number, source, compiled->main.kernels, compiled->main.kernels_compiled, compile_ms);
    return {};
  }
  Result<PlanCache::Use> make_plan(std::span<const int64_t> key) {
    const auto symbols = key.first(key.size() - 1);
    const std::optional<PlanCache::Watch> watch = watch_plans(number, source, binder);
    return plans.find_or_make(
        key,
        [&]() -> Result<std::unique_ptr<Plan>> {
          const auto start = Clock::now();
          TENON_TRY(shape_guards.check(symbols));
          TENON_ASSIGN(auto plan, Plan::make(compiled->main.source, {symbols.begin(), symbols.end()},
                                             static_cast<int>(key.back())));
          compiled_for_plans += plan->kernels_compiled;
          if (profiling()) profile_event("plan", number, source, start);
          return plan;
        },
        watch ? &*watch : nullptr);
  }
};

namespace {

std::atomic<int64_t> next_program{1};

// Turns sizes that are too large, and a lack of memory, into a Status: they are no bugs.
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
  for (const std::string& name : options.backends) {
    const Backend* named = find_backend(name);
    if (named && named->device_type() == options.device.type) continue;
    std::string all;
    for (const Backend* b : all_backends())
      if (b->device_type() == options.device.type) all += " " + std::string(b->name());
    return invalid(
        (named ? "back end " + name + " runs on another type of device" : "no back end is called " + name) +
        "; there are:" + all);
  }
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

Status Program::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream,
                    Plan::Host* host) {
  TENON_TRY(check_count(source_, Role::input, inputs.size()));
  TENON_TRY(check_count(source_, Role::output, outputs.size()));
  if (outputs.size() == source_.outputs.size()) return run_all(inputs, outputs, stream, host);
  std::vector<Tensor> all(outputs.begin(), outputs.end());
  for (size_t o = outputs.size(); o < source_.outputs.size(); ++o)
    all.push_back(inputs[*source_.outputs[o].updates]);
  return run_all(inputs, all, stream, host);
}

Status Program::run_all(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream,
                        Plan::Host* host) {
  if (verified_ < options_.verify)
    return caught(source_, [&] { return run_verified(inputs, outputs, host); });
  return caught(source_,
                [&] { return where_threads_are([&] { return run_here(inputs, outputs, stream, host); }); });
}

Status Program::run_here(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream,
                         Plan::Host* host, const std::function<void()>& checked) {
  const HazardPointer<Impl> pin(impl_);
  Impl& p = *pin;
  const bool profiled = profiling();
  const auto start = profiled ? Clock::now() : Clock::time_point();
  BoundCall call(source_);
  TENON_TRY(p.binder.bind(inputs, outputs, &call));
  if (p.compiled->runtime)
    TENON_TRY(p.compiled->runtime->check_stream(stream, false));
  else if (stream)
    return invalid("a stream is given, but the program runs on the CPU");
  if (p.compiled->runtime && host)
    return unsupported("a run on a device needs the memory of all outputs before it begins");
  call.key.end()[-1] =
      p.compiled->runtime ? 1 : p.threads();  // a plan on a device uses no threads of the host
  PlanCache::Use plan = p.plans.find(call.key.all());
  if (!plan) {
    TENON_TRY(p.binder.check_sizes(inputs, call.symbols));
    if (p.compiled->runtime) TENON_TRY(p.compiled->runtime->check_stream(stream, true));
    TENON_ASSIGN(plan, p.make_plan(call.key.all()));
  }
  TENON_TRY(p.binder.check(*plan, inputs, outputs, host != nullptr));
  if (checked) checked();
  const RunOn on{p.parallel(), stream, p.memory(), p.compiled->runtime};
  if (!profiled) return plan->run(call.inputs.data(), call.outputs.data(), *p.arenas, on, host);
  WatchedRun watched({number_, source_, p.compiled->main.source, *plan}, start);
  TENON_TRY(plan->run(call.inputs.data(), call.outputs.data(), *p.arenas, on, host, &watched));
  watched.succeeded();
  return {};
}

// Compares the outputs with the evaluator's, so all of them need memory from the start, and no input goes back to the host.
Status Program::run_verified(std::span<const Tensor> inputs, std::span<const Tensor> given_outputs,
                             Plan::Host* host) {
  std::vector<Tensor> outputs(given_outputs.begin(), given_outputs.end());
  for (size_t o = 0; host && o < outputs.size(); ++o)
    if (!outputs[o].data) outputs[o].data = host->allocate(static_cast<int>(o));
  for (const Tensor& out : std::span(outputs).first(source_.plain_outputs()))
    for (const Tensor& in : inputs)
      if (out.data && out.data == in.data)
        return invalid("an output shares memory with an input, which a verified run does not allow");
  std::vector<HostTensor> given, got;
  const auto copy_inputs = [&] {
    std::lock_guard lock(update_);
    for (size_t i = 0; i < inputs.size(); ++i)
      given.push_back(i < params_.size() && params_[i] ? *params_[i] : host_copy(inputs[i]));
  };
  TENON_TRY(where_threads_are([&] { return run_here(inputs, outputs, nullptr, nullptr, copy_inputs); }));
  ++verified_;
  for (const Tensor& out : outputs) got.push_back(host_copy(out));
  TENON_ASSIGN(const std::string difference, difference_of(source_, given, got));
  if (difference.empty()) return {};
  for (size_t o = source_.plain_outputs(); o < source_.outputs.size(); ++o) {
    const auto input = static_cast<size_t>(*source_.outputs[o].updates);
    write_back(given[input], inputs[input]);  // the host may compute the run itself
  }
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
  // Wait without the lock and outside the NoFork section: a run that holds the former Impl may be about to
  // make a plan.
  while (is_protected(former.get())) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return {};
}

void Program::set_limits(const PlanLimits& limits) {
  HazardPointer<Impl> p;
  {
    const NoFork no_fork;
    std::lock_guard lock(update_);
    options_.limits = limits;
    p = HazardPointer<Impl>(impl_);
  }
  const std::optional<PlanCache::Watch> watch = watch_plans(number_, source_, p->binder);
  p->plans.set_limits(limits, watch ? &*watch : nullptr);
}

std::string Program::explain(bool json) const {
  const NoFork no_fork;
  const HazardPointer<Impl> p(impl_);
  const PlanCache::Use newest = p->plans.newest();
  return tenon::explain(p->compiled->main.graph, p->compiled->main.source, newest ? &*newest : nullptr, json);
}

ProgramStats Program::stats() const {
  const HazardPointer<Impl> p(impl_);
  const PlanCache::Use newest = p->plans.newest();
  ProgramStats s;
  s.nodes = p->compiled->main.nodes;
  s.nodes_fused = p->compiled->main.nodes_fused;
  s.kernels = p->compiled->main.kernels;
  s.kernels_compiled = p->compiled->main.kernels_compiled + p->compiled_for_plans;
  s.reference_steps = p->compiled->main.source.reference_steps();
  s.steps = static_cast<int64_t>(p->compiled->main.source.executables.size());
  s.workspace_bytes = newest ? newest->workspace_bytes() : 0;
  s.plans = p->plans.stats();
  s.compile_ms = p->compile_ms;
  return s;
}

const Graph& Program::graph() const { return source_; }

}  // namespace tenon
