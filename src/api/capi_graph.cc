// The graph functions of tenon.h: check, translate, call. Tested by tests/abi/capi*.c.
#include "src/api/guard.h"
#include "src/ir/op.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/passes/gradient.h"
#include "src/runtime/compile/query.h"

using tenon::api::guarded;

extern "C" {

tenon_status tenon_graph_parse(const char* text, size_t length, tenon_graph** out) {
  return guarded([&]() -> tenon::Status {
    if (!text || !out) return tenon::invalid("tenon_graph_parse: text and out must not be NULL");
    *out = nullptr;
    TENON_ASSIGN(tenon::Graph graph,
                 tenon::parse_graph({text, length == TENON_NTS ? std::strlen(text) : length}));
    TENON_TRY(tenon::verify(graph));
    auto* handle = new tenon_graph;
    handle->graph = std::move(graph);
    *out = handle;
    return {};
  });
}

tenon_status tenon_graph_print(const tenon_graph* graph, char* buffer, size_t capacity, size_t* length) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::api::check_finished(graph, "tenon_graph_print"));
    return tenon::api::write_text(tenon::print(graph->graph), "tenon_graph_print", buffer, capacity, length);
  });
}

tenon_status tenon_graph_value_type(const tenon_graph* graph, tenon_value value, tenon_dtype* dtype,
                                    char* dims, size_t capacity, size_t* length) {
  return guarded([&]() -> tenon::Status {
    if (!graph || !dtype) return tenon::invalid("tenon_graph_value_type: an argument is NULL");
    const tenon::Graph& g = graph->graph;
    if (value >= g.nodes.size())
      return tenon::invalid("tenon_graph_value_type: no value of the graph: " + std::to_string(value));
    const tenon::TensorType& type = g.type(value);
    TENON_TRY(
        tenon::api::write_text(g.dims->print(type.shape), "tenon_graph_value_type", dims, capacity, length));
    const auto& facts = tenon::kDTypes[static_cast<int>(type.dtype)];
    *dtype = {facts.dlpack_code, facts.dlpack_bits, 1};
    return {};
  });
}

tenon_status tenon_graph_gradient(const tenon_graph* graph, const tenon_gradient_options* options,
                                  tenon_graph** out) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::api::check_finished(graph, "tenon_graph_gradient"));
    if (!out) return tenon::invalid("tenon_graph_gradient: out is NULL");
    *out = nullptr;
    tenon_gradient_options given;
    TENON_TRY(tenon::api::read_struct(options, "tenon_gradient_options", &given));
    tenon::GradientOptions chosen;
    if (given.targets) chosen.targets.emplace(given.targets, given.targets + given.n_targets);
    if (given.wrt) chosen.wrt.emplace(given.wrt, given.wrt + given.n_wrt);
    chosen.heads = given.heads != 0;
    chosen.keep_outputs = given.keep_outputs != 0;
    TENON_ASSIGN(tenon::Graph gradients, tenon::gradient(graph->graph, chosen));
    TENON_TRY(tenon::verify(gradients));
    auto* handle = new tenon_graph;
    handle->graph = std::move(gradients);
    *out = handle;
    return {};
  });
}

tenon_status tenon_graph_query(const tenon_graph* graph, tenon_device device, tenon_query_fn fn, void* user) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::api::check_finished(graph, "tenon_graph_query"));
    if (!fn) return tenon::invalid("tenon_graph_query: fn is NULL");
    const tenon::Graph& g = graph->graph;
    TENON_TRY(tenon::verify(g));
    const std::vector<tenon::Answer> answers = tenon::query(g, device.type);
    for (tenon::ValueId v = 0; v < g.nodes.size(); ++v) {
      const tenon::Op& row = tenon::op(g.node(v).op);
      if (row.kind == tenon::Kind::input) continue;
      fn(user, v, g.value_name(v).c_str() + 1, std::string(row.name).c_str(), answers[v].backend.c_str(),
         answers[v].why.c_str());
    }
    return {};
  });
}

void tenon_graph_retain(tenon_graph* graph) { tenon::api::retain(graph); }
void tenon_graph_release(tenon_graph* graph) { tenon::api::release(graph); }
}
