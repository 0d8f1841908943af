// Operand: a value as a library reads it in place: what stands in memory underneath, strides and an offset. While groups form and
// buffers have no places yet, `buffer` is -1. Tested by tests/unit/backends/onednn_test.cc and tests/unit/backends/cublaslt_spec_test.cc.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "src/ir/graph.h"

namespace tenon {

// Strides of a value that is in memory, nothing for one to read through.
using StridesOf = std::function<std::optional<Dims>(ValueId)>;

struct Operand {
  ValueId base = kNoValue;  // the value in memory underneath
  int buffer = -1;          // its position among the step's buffers
  DType dtype = DType::f32;
  Dims shape, strides;                     // stride 0 along axes it is repeated along
  Dim offset;                              // elements
  std::shared_ptr<ConstantData> constant;  // set when base is a constant
};

// `v` through its views; where they are no strides, `v` itself, which is stored densely before.
Operand operand_of(const Graph& graph, ValueId v, const StridesOf& strides_of);
// `v` itself, stored densely before.
Operand stored_operand(const Graph& graph, ValueId v);

// Strides while groups form: what is no view and no literal is taken to lie as inputs and outputs are bound, else dense.
std::optional<Dims> bound_strides(const Graph& graph, ValueId v);

// The number a value is everywhere, through views, as its dtype holds it.
std::optional<double> number_of(const Graph& graph, ValueId v);

}  // namespace tenon
