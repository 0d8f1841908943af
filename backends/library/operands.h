// The operands of a spec: as many axes as the result, and the result itself. Sizes are still symbols.
// Tested by tests/unit/backends/library_test.cc.
#pragma once

#include <optional>

#include "src/ops/rules/operand.h"

namespace tenon::library {

// Adds an axis of size 1.
void insert_axis(Operand& o, size_t at);
// Transposes the matrices in the last two axes.
void swap_matrix(Operand& o);
// Expands the operand to `shape`, with stride 0 along the axes along which it is broadcast. Nothing if the operand is larger.
std::optional<Operand> spread(Operand o, const Dims& shape);
// The operand in place, or, where the library does not read it in place, as it lies after a copy.
Operand read(const Graph& graph, ValueId v, const StridesOf& strides_of, bool in_place);
// The value that a group writes, with the strides that it is stored with.
Operand written(const Graph& graph, ValueId v, const StridesOf& strides_of);

}  // namespace tenon::library
