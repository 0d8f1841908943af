// PutMode: how scatter and index_put combine an update with the old element, the attribute `mode`. The shape
// rule, the evaluator and the kernels read this table. Tested by tests/unit/ops/eval_test.cc,
// tests/unit/runtime/run_test.cc and tests/unit/ops/ops_test.cc.
#pragma once

#include <string_view>

#include "src/ir/dtype.h"
#include "src/ops/rows/names.h"

namespace tenon {

struct PutMode {
  std::string_view name;
  OpId fold, fold_bool;  // the map row that folds the update into the old element
  bool sets = false;     // no row: the update replaces the old element
  OpId row(DType type) const { return is_bool(type) ? fold_bool : fold; }
};

inline constexpr PutMode kPutModes[] = {
    {"set", 0, 0, true},
    {"add", ops::add, ops::logical_or},
    {"mul", ops::mul, ops::logical_and},
    {"max", ops::maximum, ops::logical_or},
    {"min", ops::minimum, ops::logical_and},
};

// nullptr if no mode has this name.
inline const PutMode* find_put_mode(std::string_view name) {
  for (const PutMode& mode : kPutModes)
    if (mode.name == name) return &mode;
  return nullptr;
}

}  // namespace tenon
