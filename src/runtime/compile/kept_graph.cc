// See kept_graph.h.
#include "src/runtime/compile/kept_graph.h"

#include "src/base/build_id.h"
#include "src/base/cpu.h"
#include "src/base/env.h"
#include "src/ir/op.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace {

constexpr size_t kLeastNodes = 64;            // with fewer nodes the passes take less time than a file
constexpr size_t kMostConstants = 256 << 10;  // bytes of all constants

size_t bytes_of_constants(const Graph& graph) {
  size_t bytes = 0;
  for (const Node& node : graph.nodes)
    if (node.op == ops::constant) bytes += attr_as<std::shared_ptr<ConstantData>>(node, "data")->size;
  return bytes;
}

bool worth_keeping(const Graph& graph) {
  return graph.nodes.size() >= kLeastNodes && bytes_of_constants(graph) <= kMostConstants &&
         !build_id().empty() && DiskCache::get().on() && env::dump().empty();  // a dump shows every pass
}

// Everything besides the graph and the instruction sets that decides about bids; oneDNN chooses its
// implementations by the number of threads too.
std::string described(const BackendPlacement& placement) {
  std::string all =
      std::to_string(default_parallel().threads()) + " threads, TENON_WINOGRAD=" + env::winograd();
  for (const Backend* b : placement.backends()) all += "; " + std::string(b->name()) + ": " + b->describe();
  return all;
}

// Sizes of a plan are numbered as the symbols of the source.
Status check_symbols(const DimTable& found, const DimTable& source) {
  bool same = found.symbol_count() == source.symbol_count() &&
              found.equalities().size() == source.equalities().size();
  for (int i = 0; same && i < source.symbol_count(); ++i)
    same = found.symbol_name(found.symbol_at(i)) == source.symbol_name(source.symbol_at(i));
  return same ? Status() : invalid("it has other symbols than its source");
}

}  // namespace

KeptGraph::KeptGraph(const Graph& source, const BackendPlacement& placement, const Without& without)
    : source_(source) {
  if (!worth_keeping(source)) return;
  machine_ = cpu_has();
  text_ = print(source);
  text_.erase(0, text_.find('('));  // "graph @NAME"
  std::string left_out;
  for (const std::string& pass : without) left_out += pass + " ";
  key_ = disk_key({"tenon graph", build_id(), machine_, described(placement), left_out, text_});
}

DiskRequest KeptGraph::request() const { return {key_, text_, source_.name, "graph", machine_}; }

std::optional<Graph> KeptGraph::find() {
  std::optional<Graph> found;
  if (text_.empty()) return found;
  DiskCache::get().find(request(), [&](const std::string& object) -> Status {
    TENON_ASSIGN(Graph graph, parse_graph(object));
    TENON_TRY(check_symbols(*graph.dims, *source_.dims));
    if (env_verify()) TENON_TRY(verify(graph));
    graph.name = source_.name;
    found = std::move(graph);
    return {};
  });
  return found;
}

void KeptGraph::refuse(const std::string& why) { DiskCache::get().refuse(request(), why); }

void KeptGraph::keep(const Graph& grouped) {
  if (text_.empty() || bytes_of_constants(grouped) > kMostConstants) return;
  const std::string text = print(grouped);
  if (source_.dims->symbol_count() > 0) {  // the text may declare them in another order
    const auto again = parse_graph(text);
    if (!again.ok() || !check_symbols(*again->dims, *source_.dims).ok()) return;
  }
  DiskCache::get().keep(request(), text, std::string(kGraphProducer) + build_id());
}

}  // namespace tenon
