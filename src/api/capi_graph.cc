// The graph functions of tenon.h: check, translate, call. Tested by tests/capi.c.
#include "src/api/guard.h"
#include "src/ir/text.h"

using tenon::api::guarded;

extern "C" {

tenon_status tenon_graph_parse(const char* text, size_t length, tenon_graph** out) {
  return guarded([&]() -> tenon::Status {
    if (!text || !out) return tenon::invalid("tenon_graph_parse: text and out must not be NULL");
    *out = nullptr;
    TENON_ASSIGN(tenon::Graph graph, tenon::parse_graph({text, length == TENON_NTS ? std::strlen(text) : length}));
    auto* handle = new tenon_graph;
    handle->graph = std::move(graph);
    *out = handle;
    return {};
  });
}

void tenon_graph_retain(tenon_graph* graph) { tenon::api::retain(graph); }
void tenon_graph_release(tenon_graph* graph) { tenon::api::release(graph); }
}
