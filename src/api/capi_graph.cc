// The graph functions of tenon.h: check, translate, call. Tested by tests/abi/capi*.c.
#include "src/api/guard.h"
#include "src/ir/op.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/runtime/compile/query.h"

using tenon::api::guarded;

extern "C" {

tenon_status tenon_graph_parse(const char* text, size_t length, tenon_graph** out) {
  return guarded([&]() -> tenon::Status {
    if (!text || !out) return tenon::invalid("tenon_graph_parse: text and out must not be NULL");
    *out = nullptr;
    TENON_ASSIGN(tenon::Graph graph,
                 tenon::parse_graph({text, length == TENON_NTS ? std::strlen(text) : length}));
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
