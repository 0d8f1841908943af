// Bodies: ops in terms of other ops, for the body column of the rows. Each takes the node (operands are values of the
// builder's graph, attributes complete) and returns the value that stands for it, of exactly the node's type. Sizes
// may be symbolic. 16-bit floats are computed in f32 and rounded once at the end. Tested by tests/table_test.cc,
// against PyTorch by tests/torch/test_ops.py.
#pragma once

#include "src/ir/builder.h"

namespace tenon::bodies {

}  // namespace tenon::bodies
