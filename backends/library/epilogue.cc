// See epilogue.h.
#include "backends/library/epilogue.h"

#include <vector>

#include "src/ir/op.h"
#include "src/ops/rules/operand.h"

namespace tenon::library {
namespace {

// Searches upwards from the inputs of the node that was added last. Returns whether visit wants no more chains.
bool search(const Graph& graph, const std::vector<int>& uses, const Chains& chains,
            std::vector<ValueId>& chain, FunctionRef<bool(std::span<const ValueId>)> visit) {
  for (ValueId v : graph.node(chain.back()).inputs) {
    if (uses[v] != 1) continue;
    chain.push_back(v);
    bool stops = false;
    if (chains.is_root(graph.node(v)))
      stops = visit(std::vector<ValueId>(chain.rbegin(), chain.rend()));
    else if (chains.continues(graph.node(v)) && chain.size() <= chains.longest)
      stops = search(graph, uses, chains, chain, visit);
    chain.pop_back();
    if (stops) return true;
  }
  return false;
}

}  // namespace

Result<OtherOperand> other_operand(const Graph& graph, ValueId before, const Node& map, const char* is_none) {
  if (op(map.op).kind != Kind::map || map.inputs.size() != 2)
    return unsupported(std::string(op(map.op).name) + is_none);
  const bool second = map.inputs[0] == before;
  const ValueId other = map.inputs[second ? 1 : 0];
  if (other == before) return unsupported("it reads the library's result twice");
  return OtherOperand{other, second, number_of(graph, other)};
}

void each_chain(const Graph& graph, ValueId last, const Chains& chains,
                FunctionRef<bool(std::span<const ValueId>)> visit) {
  std::vector<ValueId> chain{last};
  search(graph, graph.use_counts(), chains, chain, visit);
}

}  // namespace tenon::library
