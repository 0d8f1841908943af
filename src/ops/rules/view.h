// View: a value seen through reshape, transpose, expand, slice, windows and flip, as an offset and strides
// into the stored value underneath. Libraries and scatters read operands in this way, without copies. Tested
// by tests/unit/runtime/run_test.cc.
#pragma once

#include <functional>
#include <optional>

#include "src/ir/graph.h"

namespace tenon {

struct View {
  ValueId base = kNoValue;
  Dim offset;    // in elements
  Dims strides;  // in elements, one per axis of the value; 0 if broadcast
};

// strides_of: the strides of a stored value; nullopt for a value to read through. Returns nullopt if strides
// cannot express some view on the way (a reshape that would copy) or if it meets a node that is no view.
std::optional<View> view_of(const Graph& graph, ValueId value,
                            const std::function<std::optional<Dims>(ValueId)>& strides_of);

}  // namespace tenon
