// GateInputs: the row `linear` in front of a recurrent node, which computes the inputs of the gates from all steps of the sequence. It
// multiplies by packed panels, as the steps do. Tested by tests/unit/backends/recurrent_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon::recurrent {

// v: a linear node. Yes if a recurrent node reads its result, the rows of x are dense and of one stride, and all is f32.
Bid bid_for_gate_inputs(const Graph& graph, ValueId v);
Result<std::unique_ptr<Executable>> make_gate_inputs(const BuildContext& context, ValueId v);

}  // namespace tenon::recurrent
