// Graph bodies: composites whose body is a graph of text, registered at run time. The first `arity` inputs are the
// operands; symbols in their shapes stand for any size. Attributes are symbols (kind int) and inputs of shape [] of their
// names. Shape and type of the row are what inferring the body gives. Tested by tests/abi/capi*.c.
#pragma once

#include "src/ir/op.h"

namespace tenon {

// The row's views must live until register_op has returned, which copies them. invalid when the body does not fit.
Result<OpId> register_graph_body(std::string_view name, int arity, std::string_view attrs,
                                 std::string_view body, std::string_view doc);

}  // namespace tenon
