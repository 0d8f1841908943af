// Table: what holds for every row beyond what op() hands out. check_row says what a row owes for its kind; it
// guards register_op and is walked over all rows by tests/unit/ops/table_test.cc.
#pragma once

#include "src/ir/op.h"

namespace tenon {

// "axis:int=0 mode:text=set shape:ints" -> specs. Text defaults are bare words, list defaults "[0,0]" or
// "[]".
Result<std::vector<AttrSpec>> parse_attr_specs(std::string_view attrs);
// What every row owes: a name that the text form can spell, attributes that parse, shape and type rules, a
// sentence. Per kind: input no operands; map an eval column (unless a dtype attribute decides the result) or
// a body; reduce and scan a combine row and an identity; contract and composite a body, and a composite no
// scalar columns.
Status check_row(const Op& row);
// The least and the greatest value of a dtype as a double (infinities for floats; 2^63 stands for the
// greatest i64).
double lowest(DType dtype);
double highest(DType dtype);
// The neutral element of a reduce or scan row as a literal of the dtype; all 64 bits are exact.
Scalar identity_of(const Op& row, DType dtype);

}  // namespace tenon
