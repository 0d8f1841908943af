// cuda_text: types and constants in CUDA text, and which rows the prelude defines. Tested by
// tests/unit/jit/cuda/emit_cuda_test.cc.
#pragma once

#include <string>
#include <string_view>

#include "src/ir/op.h"

namespace tenon::jit {

// The type of a value in registers (narrow floats are computed as float) and in memory.
std::string_view cuda_type(DType type);
std::string_view cuda_memory_type(DType type);
std::string cuda_literal(DType type, const Scalar& value);  // exact
std::string cuda_index(int64_t value);                      // of type tn_ix

// Whether the prelude has tn_ROW for a last operand of this type. If not, the math body of the row is used.
bool cuda_spells(const Op& row, DType last);

}  // namespace tenon::jit
