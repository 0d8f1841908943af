// The row recurrent_gradient: the steps of a sequence from the last one computed to the first. Each is one parallel region, in which a
// thread owns some of the units: it multiplies the gradients of all gates of the later step by the columns of the weight for its
// units, and computes the gradients of their gates. Tested by tests/unit/backends/recurrent_gradient_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon::recurrent {

Result<std::unique_ptr<Executable>> build_gradient(const BuildContext& context,
                                                   std::span<const ValueId> members);

}  // namespace tenon::recurrent
