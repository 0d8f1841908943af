// See plan_log.h.
#include "src/runtime/plan/plan_log.h"

#include "src/base/log.h"

namespace tenon {
namespace {

// "N=4 M=16"
std::string sizes_of(const Graph& graph, std::span<const int64_t> key) {
  std::string text;
  for (size_t i = 0; i + 1 < key.size(); ++i)
    text += (i ? " " : "") + graph.dims->symbol_name(graph.dims->symbol_at(static_cast<int>(i))) + "=" +
            std::to_string(key[i]);
  return text;
}

// "N, axis 0 of %x, is 4: the nearest plan has 7"
std::string why_missed(const Graph& graph, const Binder& binder, std::span<const int64_t> key,
                       const Plan* near) {
  if (!near) return "the first plan of the program";
  std::string text;
  if (key.back() != near->key().back())
    text = "the number of threads is " + std::to_string(key.back()) + ": the nearest plan has " +
           std::to_string(near->key().back());
  for (size_t i = 0; i + 1 < key.size(); ++i) {
    if (key[i] == near->symbols()[i]) continue;
    const int symbol = static_cast<int>(i);
    text += (text.empty() ? "" : "; ") + graph.dims->symbol_name(graph.dims->symbol_at(symbol));
    if (const std::string where = binder.where(symbol); !where.empty()) text += ", " + where + ",";
    text += " is " + std::to_string(key[i]) + ": the nearest plan has " + std::to_string(near->symbols()[i]);
  }
  return text;
}

}  // namespace

void log_program(int64_t program, const Graph& graph, int64_t kernels, int64_t compiled, double ms) {
  if (!log_wanted("program")) return;
  log_row(
      "program", "program,graph,nodes,kernels,compiled,ms,symbols",
      {std::to_string(program), "@" + graph.name, std::to_string(graph.nodes.size()), std::to_string(kernels),
       std::to_string(compiled), std::to_string(ms), std::to_string(graph.dims->symbol_count())});
}

std::optional<PlanCache::Watch> watch_plans(int64_t program, const Graph& graph, const Binder& binder) {
  if (!log_wanted("plan")) return std::nullopt;
  return [program, &graph, &binder](PlanCache::Event event, std::span<const int64_t> key, const Plan* near) {
    std::string what, why;
    switch (event) {
      case PlanCache::Event::miss: what = "miss", why = why_missed(graph, binder, key, near); break;
      case PlanCache::Event::wait: what = "wait", why = "another thread is making it"; break;
      case PlanCache::Event::evict: what = "evict", why = "the limit of plans is reached"; break;
    }
    log_row("plan", "event,program,graph,sizes,why",
            {what, std::to_string(program), "@" + graph.name, sizes_of(graph, key), why});
  };
}

}  // namespace tenon
