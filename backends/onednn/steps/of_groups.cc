// See of_groups.h.
#include "backends/onednn/steps/of_groups.h"

#include "backends/onednn/steps/grouped.h"
#include "backends/onednn/steps/grouped_outer.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"

namespace tenon::onednn {

bool is_of_groups(const Node& node) {
  return node.op == ops::grouped_matmul || node.op == ops::grouped_outer;
}

Result<std::unique_ptr<OfGroups>> make_of_groups(const Graph& graph, ValueId v, const StridesOf& strides_of) {
  const Node& node = graph.node(v);
  const DType dtype = node.type.dtype;
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
    return unsupported("the library is not used for " + std::string(name(dtype)));
  std::unique_ptr<OfGroups> made = node.op == ops::grouped_outer ? make_grouped_outer(graph, v, strides_of)
                                                                 : make_grouped(graph, v, strides_of);
  const ValueId members[] = {v};
  made->inputs = inputs_of(graph, members);
  made->outputs = {v};
  made->ends = operand_of(graph, node.inputs[1], strides_of);
  return made;
}

}  // namespace tenon::onednn
