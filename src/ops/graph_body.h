// Graph bodies: composites that are registered at run time and whose body is the text of a graph. The first
// `arity` inputs are the operands; symbols in their shapes stand for any size. An attribute is a symbol of
// its name (kind int) or an input of its name and of shape []. The row's shape and type come from inferring
// the body. Tested by tests/abi/capi*.c.
#pragma once

#include "src/ir/op.h"

namespace tenon {

// The strings must live until register_op, which copies them, has returned. Fails with invalid if the body
// does not fit.
Result<OpId> register_graph_body(std::string_view name, int arity, std::string_view attrs,
                                 std::string_view body, std::string_view doc);

}  // namespace tenon
