// The program functions of tenon.h: check, translate, call. Tested by tests/capi.c.
#include <vector>

#include "src/api/guard.h"

using tenon::api::guarded;

namespace tenon {
namespace {

constexpr size_t kOnStack = 64;

// Tensors of a call; up to kOnStack of them without an allocation.
class TensorList {
 public:
  Status read(const tenon_tensor* const* given, size_t n, const char* what, const Graph* graph) {
    if (n > 0 && !given) return invalid(std::string(what) + "s are NULL");
    if (n > kOnStack) heap_.resize(n);
    list_ = {n > kOnStack ? heap_.data() : stack_, n};
    for (size_t i = 0; i < n; ++i) {
      list_[i] = Tensor();
      if (given[i]) {
        TENON_TRY(api::read_tensor(given[i], what, i, &list_[i]));
      } else if (graph && i < graph->inputs.size()) {
        list_[i].dtype = graph->type(graph->inputs[i].value).dtype;  // absent: a frozen input, or refused later
      }
    }
    return {};
  }
  std::span<const Tensor> list() const { return list_; }

 private:
  Tensor stack_[kOnStack];
  std::vector<Tensor> heap_;
  std::span<Tensor> list_;
};

}  // namespace
}  // namespace tenon

extern "C" {

tenon_status tenon_program_create(const tenon_graph* graph, const tenon_program_options* options,
                                  const tenon_tensor* const* params, size_t n_params, tenon_program** out) {
  return guarded([&]() -> tenon::Status {
    if (!graph || !out) return tenon::invalid("tenon_program_create: graph and out must not be NULL");
    *out = nullptr;
    tenon_program_options given;
    TENON_TRY(tenon::api::read_struct(options, "tenon_program_options", &given));
    if (given.num_threads < 0) return tenon::invalid("num_threads is negative");
    tenon::ProgramOptions program_options;
    program_options.freeze = given.freeze != 0;
    program_options.threads = given.num_threads;
    tenon::TensorList tensors;
    TENON_TRY(tensors.read(params, n_params, "param", nullptr));
    TENON_ASSIGN(auto program, tenon::Program::make(graph->graph, program_options, tensors.list()));
    auto* handle = new tenon_program;
    handle->program = std::move(program);
    *out = handle;
    return {};
  });
}

tenon_status tenon_program_update_params(tenon_program* program, const tenon_tensor* const* params, size_t n_params) {
  return guarded([&]() -> tenon::Status {
    if (!program) return tenon::invalid("tenon_program_update_params: program is NULL");
    tenon::TensorList tensors;
    TENON_TRY(tensors.read(params, n_params, "param", nullptr));
    return program->program->update_params(tensors.list());
  });
}

tenon_status tenon_program_run(tenon_program* program, const tenon_tensor* const* inputs, size_t n_inputs,
                               const tenon_tensor* const* outputs, size_t n_outputs) {
  return guarded([&]() -> tenon::Status {
    if (!program) return tenon::invalid("tenon_program_run: program is NULL");
    tenon::TensorList in, out;
    TENON_TRY(in.read(inputs, n_inputs, "input", &program->program->graph()));
    TENON_TRY(out.read(outputs, n_outputs, "output", nullptr));
    return program->program->run(in.list(), out.list());
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

tenon_status tenon_program_get_stats(tenon_program* program, tenon_program_stats* out) {
  return guarded([&]() -> tenon::Status {
    if (!program || !out) return tenon::invalid("tenon_program_get_stats: an argument is NULL");
    const size_t size = out->struct_size;
    if (size < sizeof(size_t) || size > 4096) return tenon::invalid("tenon_program_stats: struct_size is not set");
    const tenon::ProgramStats s = program->program->stats();
    const tenon_program_stats full = {size,    s.nodes,           s.nodes_fused, s.kernels,   s.kernels_compiled,
                                      s.steps, s.workspace_bytes, s.plans,       s.plan_hits, s.compile_ms};
    std::memset(out, 0, size);
    std::memcpy(out, &full, size < sizeof(full) ? size : sizeof(full));
    out->struct_size = size;
    return {};
  });
}

void tenon_program_retain(tenon_program* program) { tenon::api::retain(program); }
void tenon_program_release(tenon_program* program) { tenon::api::release(program); }
}
