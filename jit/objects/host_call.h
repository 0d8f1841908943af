// host_call: how machine code computes a row that has only an eval column. The code stores the operands of a
// vector one after another and calls the function of their class, with the row's eval function as an
// argument. The results replace the first operand. Objects name these functions, so objects on disk fit every
// build that has the row. Tested by tests/unit/ops/special_test.cc.
#pragma once

#include <string_view>

#include "src/ir/op.h"

namespace tenon::jit {

inline constexpr int kMostHostOperands = 4;
// The symbol of a row's eval function is this prefix, the suffix of the class and the row's name.
inline constexpr std::string_view kHostPrefix = "tenon_eval_";

// The type with which an eval function takes its operands.
struct HostClass {
  DType type;               // f64, f32 or i64
  std::string_view suffix;  // "f64_"
  std::string_view caller;  // the function that code calls: void(eval, values, operands, lanes, count)
};
HostClass host_class(const Op& row, DType operand);

// The address of a symbol with kHostPrefix or of a caller. Null: there is none.
void* host_symbol(std::string_view name);

}  // namespace tenon::jit
