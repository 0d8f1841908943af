// View: a value read through reshape, transpose, expand, slice, windows and flip as offset and strides into the
// materialised value underneath. Libraries and scatters take operands this way, without copies.
// Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include <functional>
#include <optional>

#include "src/ir/graph.h"

namespace tenon {

struct View {
  ValueId base = kNoValue;
  Dim offset;    // elements
  Dims strides;  // elements, one per dimension of the value; 0 where broadcast
};

// strides_of: the strides of a materialised value, nothing for a value to read through.
// Nothing when some view on the way is not strided (a reshape that would copy) or a non-view is met.
std::optional<View> view_of(const Graph& graph, ValueId value,
                            const std::function<std::optional<Dims>(ValueId)>& strides_of);

}  // namespace tenon
