// The program functions of tenon.h: check, translate, call. Tested by tests/abi/capi*.c.
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "src/api/guard.h"
#include "src/runtime/plan/bind.h"
#include "src/runtime/profile.h"

using tenon::api::guarded;

namespace tenon {
namespace {

constexpr size_t kOnStack = 64;

// The tensors of a call. Up to kOnStack of them need no allocation.
class TensorList {
 public:
  Status read(const tenon_tensor* const* given, size_t n, Role role, const Graph& graph) {
    if (n > 0 && !given) return invalid(std::string(name(role)) + "s are NULL");
    TENON_TRY(check_count(graph, role, n));
    if (n > kOnStack) heap_.resize(n);
    list_ = {n > kOnStack ? heap_.data() : reinterpret_cast<Tensor*>(stack_), n};
    for (size_t i = 0; i < n; ++i) {
      new (&list_[i]) Tensor();
      if (given[i]) {
        TENON_TRY(api::read_tensor(given[i], name(role), i, &list_[i]));
        if (role == Role::param && !list_[i].data && !empty(list_[i]))
          return invalid("param " + std::to_string(i) + " has no data");
      } else if (i < graph.inputs.size()) {
        list_[i].dtype = graph.type(graph.inputs[i].value).dtype;  // absent: a frozen input, or refused later
      }
    }
    return {};
  }
  // One param per input, or none at all.
  Status read_params(const tenon_tensor* const* given, size_t n, const Graph& graph) {
    return n == 0 ? Status() : read(given, n, Role::param, graph);
  }
  std::span<const Tensor> list() const { return list_; }

 private:
  static bool empty(const Tensor& t) { return std::find(t.shape.begin(), t.shape.end(), 0) != t.shape.end(); }

  // Constructed on use: clearing the whole array took half the time of a small call.
  alignas(Tensor) std::byte stack_[kOnStack * sizeof(Tensor)];
  static_assert(std::is_trivially_destructible_v<Tensor>);
  std::vector<Tensor> heap_;
  std::span<Tensor> list_;
};

// The host of a run, as a caller gives it.
struct CallersHost final : Plan::Host {
  tenon_run_host given;
  void* allocate(int output) override {
    return given.allocate ? given.allocate(given.user, static_cast<size_t>(output)) : nullptr;
  }
  void release(int input) override {
    if (given.release) given.release(given.user, static_cast<size_t>(input));
  }
};

Result<DeviceGraphs> device_graphs(int32_t given) {
  switch (given) {
    case TENON_DEVICE_GRAPHS_AUTO: return DeviceGraphs::of_small_kernels;
    case TENON_DEVICE_GRAPHS_ALWAYS: return DeviceGraphs::always;
    case TENON_DEVICE_GRAPHS_NEVER: return DeviceGraphs::never;
  }
  return invalid("device_graphs is " + std::to_string(given) + ", no TENON_DEVICE_GRAPHS_...");
}

Result<PlanLimits> plan_limits(int64_t plans, int64_t bytes) {
  if (plans < 0) return invalid("max_plans is negative: " + std::to_string(plans));
  if (bytes < 0) return invalid("max_plan_bytes is negative: " + std::to_string(bytes));
  PlanLimits limits;
  if (plans > 0) limits.plans = plans;
  if (bytes > 0) limits.bytes = bytes;
  return limits;
}

}  // namespace
}  // namespace tenon

extern "C" {

tenon_status tenon_program_create(const tenon_graph* graph, const tenon_program_options* options,
                                  const tenon_tensor* const* params, size_t n_params, tenon_program** out) {
  return guarded([&]() -> tenon::Status {
    if (!out) return tenon::invalid("tenon_program_create: out is NULL");
    *out = nullptr;
    TENON_TRY(tenon::api::check_finished(graph, "tenon_program_create"));
    tenon_program_options given;
    TENON_TRY(tenon::api::read_struct(options, "tenon_program_options", &given));
    if (given.num_threads < 0) return tenon::invalid("num_threads is negative");
    tenon::ProgramOptions program_options;
    program_options.freeze = given.freeze != 0;
    program_options.threads = given.num_threads;
    program_options.verify = given.verify;
    if (given.memory_budget_bytes < 0) return tenon::invalid("memory_budget_bytes is negative");
    program_options.budget = given.memory_budget_bytes;
    TENON_ASSIGN(program_options.limits, tenon::plan_limits(given.max_plans, given.max_plan_bytes));
    if (given.reserved2) return tenon::invalid("tenon_program_options: reserved2 is not 0");
    TENON_ASSIGN(program_options.graphs, tenon::device_graphs(given.device_graphs));
    if (given.device.type != 0) program_options.device = {given.device.type, given.device.id};
    if (given.context) {
      program_options.device_memory = given.context->device_memory(program_options.device);
      program_options.parallel = given.context->parallel.get();
      program_options.allocator = given.context->allocator;
      if (given.num_threads == 0) program_options.threads = given.context->num_threads;
    }
    tenon::TensorList tensors;
    TENON_TRY(tensors.read_params(params, n_params, graph->graph));
    TENON_ASSIGN(auto program, tenon::Program::make(graph->graph, program_options, tensors.list()));
    auto* handle = new tenon_program;
    handle->program = std::move(program);
    handle->context = given.context;
    tenon::api::retain(given.context);
    *out = handle;
    return {};
  });
}

tenon_status tenon_program_update_params(tenon_program* program, const tenon_tensor* const* params,
                                         size_t n_params) {
  return guarded([&]() -> tenon::Status {
    if (!program) return tenon::invalid("tenon_program_update_params: program is NULL");
    tenon::TensorList tensors;
    TENON_TRY(tensors.read_params(params, n_params, program->program->graph()));
    return program->program->update_params(tensors.list());
  });
}

tenon_status tenon_program_set_limits(tenon_program* program, int64_t max_plans, int64_t max_plan_bytes) {
  return guarded([&]() -> tenon::Status {
    if (!program) return tenon::invalid("tenon_program_set_limits: program is NULL");
    TENON_ASSIGN(const tenon::PlanLimits limits, tenon::plan_limits(max_plans, max_plan_bytes));
    program->program->set_limits(limits);
    return {};
  });
}

tenon_status tenon_program_run(tenon_program* program, const tenon_tensor* const* inputs, size_t n_inputs,
                               const tenon_tensor* const* outputs, size_t n_outputs) {
  return tenon_program_run_on(program, inputs, n_inputs, outputs, n_outputs, nullptr);
}

tenon_status tenon_program_run_on(tenon_program* program, const tenon_tensor* const* inputs, size_t n_inputs,
                                  const tenon_tensor* const* outputs, size_t n_outputs, void* stream) {
  return guarded([&]() -> tenon::Status {
    if (!program) return tenon::invalid("tenon_program_run: program is NULL");
    tenon::TensorList in, out;
    TENON_TRY(in.read(inputs, n_inputs, tenon::Role::input, program->program->graph()));
    TENON_TRY(out.read(outputs, n_outputs, tenon::Role::output, program->program->graph()));
    return program->program->run(in.list(), out.list(), stream);
  });
}

tenon_status tenon_program_run_with(tenon_program* program, const tenon_tensor* const* inputs,
                                    size_t n_inputs, const tenon_tensor* const* outputs, size_t n_outputs,
                                    const tenon_run_host* host) {
  return guarded([&]() -> tenon::Status {
    if (!program) return tenon::invalid("tenon_program_run_with: program is NULL");
    tenon::CallersHost callers;
    TENON_TRY(tenon::api::read_struct(host, "tenon_run_host", &callers.given));
    tenon::TensorList in, out;
    TENON_TRY(in.read(inputs, n_inputs, tenon::Role::input, program->program->graph()));
    TENON_TRY(out.read(outputs, n_outputs, tenon::Role::output, program->program->graph()));
    return program->program->run(in.list(), out.list(), nullptr, &callers);
  });
}

tenon_status tenon_program_explain(tenon_program* program, int32_t json, const char** text, size_t* length) {
  return guarded([&]() -> tenon::Status {
    if (!program || !text || !length) return tenon::invalid("tenon_program_explain: an argument is NULL");
    thread_local std::string explained;
    explained = program->program->explain(json != 0);
    *text = explained.c_str();
    *length = explained.size();
    return {};
  });
}

tenon_status tenon_release_memory(void) {
  return guarded([]() -> tenon::Status {
    tenon::ArenaPool::release_all();
    return {};
  });
}

tenon_status tenon_profile_start(void) {
  return guarded([] { return tenon::start_profile(); });
}

tenon_status tenon_profile_stop(const char** text, size_t* length) {
  return guarded([&]() -> tenon::Status {
    if (!text || !length) return tenon::invalid("tenon_profile_stop: an argument is NULL");
    thread_local std::string stopped;
    TENON_ASSIGN(stopped, tenon::stop_profile());
    *text = stopped.c_str();
    *length = stopped.size();
    return {};
  });
}

tenon_status tenon_observe_steps(void (*begin)(void* user, const char* name), void (*end)(void* user),
                                 void* user) {
  return guarded([&]() -> tenon::Status {
    if (!begin != !end) return tenon::invalid("tenon_observe_steps: an argument is NULL");
    tenon::observe_steps(begin, end, user);
    return {};
  });
}

tenon_status tenon_program_get_stats(tenon_program* program, tenon_program_stats* out) {
  return guarded([&]() -> tenon::Status {
    if (!program || !out) return tenon::invalid("tenon_program_get_stats: an argument is NULL");
    const tenon::ProgramStats s = program->program->stats();
    tenon_program_stats full = {};
    full.nodes = s.nodes, full.nodes_fused = s.nodes_fused;
    full.kernels = s.kernels, full.kernels_compiled = s.kernels_compiled;
    full.steps = s.steps, full.workspace_bytes = s.workspace_bytes;
    full.plans = s.plans.plans, full.plan_hits = s.plans.hits, full.compile_ms = s.compile_ms;
    full.plan_misses = s.plans.misses, full.plan_waits = s.plans.waits;
    full.plan_evictions = s.plans.evictions, full.plan_bytes = s.plans.bytes, full.plan_ms = s.plans.make_ms;
    full.reference_steps = s.reference_steps;
    return tenon::api::write_struct(full, "tenon_program_stats", out);
  });
}

void tenon_program_retain(tenon_program* program) { tenon::api::retain(program); }
void tenon_program_release(tenon_program* program) { tenon::api::release(program); }
}
