// See passes.h. Tested by tests/passes/fold_batch_norm_*.tn.
#include "src/passes/passes.h"

namespace tenon {

Graph fold_batch_norm(const Graph& graph) {
  return rewrite(graph, [](Builder& b, Node&& node, ValueId) { return b.add(std::move(node)); });
}

}  // namespace tenon
