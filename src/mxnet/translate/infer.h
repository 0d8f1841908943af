// infer: the types of all variables of a symbol, from those of some. Emits the bodies into a scratch graph as soon as
// their operands are known, and asks the rows' `complete` for the rest, until nothing changes. A variable whose dtype
// nothing determines is f32. Tested by tests/unit/mxnet/translate/translate_test.cc.
#pragma once

#include "src/mxnet/translate/translate.h"

namespace tenon::mxnet {

// What is known of each node's outputs; one list per node.
using PartialTypes = std::vector<std::vector<Partial>>;

// `types` holds what the caller knows of the variables; afterwards all variables and all outputs that bodies need are
// known. All answers must be ok.
Status infer_types(const Symbol& symbol, const std::vector<Answer>& answers,
                   const std::shared_ptr<DimTable>& dims, PartialTypes& types);

// Reads the shape that an attribute states: in it, sizes of 0 (with NumPy's shapes, -1) are unknown.
std::vector<Size> stated_shape(const Tuple& tuple, bool np_shape);

// The body of node `n`, whose operands are values of the builder's graph; the values of its outputs. A failure names
// the node.
Result<Values> emit_node(Builder& builder, const Symbol& symbol, const Answer& answer, size_t n,
                         std::vector<ValueId> operands, const std::vector<Partial>& outputs);

}  // namespace tenon::mxnet
