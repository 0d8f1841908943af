// What several files of rows share. Each file of rows has a namespace of its own, because the presets with sanitizers compile several
// files as one. Tested by tests/mxnet/ops_test.py.
#pragma once

#include "src/mxnet/table.h"

namespace tenon::mxnet {

// `complete` of elementwise operators: operands and output have one shape.
void same_shapes(Completion& c);

// Whether the attribute is the number of operands, and there is one.
Status counts_operands(const Ask& ask, const char* attribute);

// The shape of data of this rank; fails for another rank.
Sizes shape_of_rank(Call& c, ValueId v, size_t rank);

// f32 for 16-bit floats and integers, else the dtype: the dtype in which MXNet computes transcendental functions.
DType math_type(DType dtype);

// The op on operands cast to math_type, cast back to the dtype of the first.
ValueId in_math_type(Call& c, OpId op, std::vector<ValueId> operands);

// x / y; for integers the quotient truncated, as in C.
ValueId divide(Call& c, ValueId x, ValueId y);
// MXNet's mod: the sign of y, and 0 for y = 0.
ValueId modulo(Call& c, ValueId x, ValueId y);
// A truth value as 0 or 1 of v's dtype, as MXNet's comparisons without NumPy's semantics give it.
ValueId as_number(Call& c, ValueId truth, ValueId v);
// v != 0.
ValueId truth(Call& c, ValueId v);

}  // namespace tenon::mxnet
