// The numbers of the built-in ops, one constant per row: ops::add, ops::softmax. They are made from the rows,
// so there is no second list. Rows registered at run time get numbers from ops::built_in_count on. Tested by
// tests/unit/ops/table_test.cc.
#pragma once

#include "src/ir/op.h"

namespace tenon::ops {

enum : OpId {
#define OP(name, ...) name,
#include "src/ops/rows/rows.def"
#undef OP
  built_in_count
};

}  // namespace tenon::ops
