// Operand: a value as a library reads it in place: the stored value underneath, strides and an offset. While
// groups form, buffers have no positions yet and `buffer` is -1. Tested by tests/unit/backends/onednn_test.cc
// and tests/unit/backends/cublaslt_spec_test.cc.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "src/ir/graph.h"

namespace tenon {

// The strides of a stored value; nullopt for a value to read through.
using StridesOf = std::function<std::optional<Dims>(ValueId)>;

struct Operand {
  ValueId base = kNoValue;  // the stored value underneath
  int buffer = -1;          // position of base among the step's buffers
  DType dtype = DType::f32;
  Dims shape, strides;                     // stride 0 along broadcast axes
  Dim offset;                              // in elements
  std::shared_ptr<ConstantData> constant;  // set if base is a constant
};

// `v` through its views. If strides cannot express the views, `v` itself, which is then stored densely first.
Operand operand_of(const Graph& graph, ValueId v, const StridesOf& strides_of);
// `v` itself, which is stored densely first.
Operand stored_operand(const Graph& graph, ValueId v);

// Strides while groups form: every value except views and literals counts as stored, as inputs and outputs
// are bound, else dense.
std::optional<Dims> bound_strides(const Graph& graph, ValueId v);

// The number that all elements of a value have, looked up through views and rounded to its dtype.
std::optional<double> number_of(const Graph& graph, ValueId v);

}  // namespace tenon
