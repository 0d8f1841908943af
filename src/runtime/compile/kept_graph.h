// KeptGraph: what the passes made of a graph, on disk, so that a later process need not run them. An entry is the
// text of the graph with its groups and with its folded constants. The user's page is docs/cache.md. Tested by
// tests/unit/runtime/kept_graph_test.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/store/disk_cache.h"
#include "src/ir/graph.h"
#include "src/passes/pipeline.h"
#include "src/runtime/compile/placement.h"

namespace tenon {

// The start of the producer of such an entry.
inline constexpr std::string_view kGraphProducer = "Tenon ";

class KeptGraph {
 public:
  // source: the graph before the passes. placement: whose back ends the passes ask; without: the passes that are
  // left out. source and placement outlive the object.
  KeptGraph(const Graph& source, const BackendPlacement& placement, const Without& without);

  // The grouped graph of an earlier process. nullopt: there is none, or the graph is too small to be worth a file.
  std::optional<Graph> find();
  // Removes the entry that find() returned, because it cannot be built.
  void refuse(const std::string& why);
  // Stores the grouped graph, unless its constants are large. The data of its constants is known.
  void keep(const Graph& grouped);

 private:
  DiskRequest request() const;

  const Graph& source_;
  std::string machine_;  // its instruction sets
  std::string text_;     // of the source, without its name; empty: not kept
  Hash128 key_;
};

}  // namespace tenon
