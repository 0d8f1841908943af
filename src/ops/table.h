// Table: the checks of rows. check_row checks the columns that a row needs for
// its kind; it guards register_op, and tests/unit/ops/table_test.cc applies it to all rows.
#pragma once

#include "src/ir/op.h"

namespace tenon {

// Parses "axis:int=0 mode:text=set shape:ints". Defaults of kind text are bare words, defaults of lists
// "[0,0]" or "[]".
Result<std::vector<AttrSpec>> parse_attr_specs(std::string_view attrs);
// Checks that a row is complete. Every row: a name valid in the text form, attributes that parse, shape and
// type rules, a doc sentence. Per kind: input no operands; map an eval column (unless a dtype attribute
// decides the result) or a body; reduce and scan a combine row and an identity; contract and composite a
// body, and a composite no scalar columns.
Status check_row(const Op& row);

}  // namespace tenon
