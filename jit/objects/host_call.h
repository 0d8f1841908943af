// Calls of the host: how machine code computes a row that has only an eval column. The code stores the operands of a vector one
// after another and calls the function for their class, with the row's eval as an argument; the results replace the first
// operand. Objects name these functions, so that those on disk fit every build that has the row.
// Tested by tests/unit/ops/special_test.cc.
#pragma once

#include <string_view>

#include "src/ir/op.h"

namespace tenon::jit {

inline constexpr int kMostHostOperands = 4;
// The symbol of a row's column is this, the class' suffix and the row's name.
inline constexpr std::string_view kHostPrefix = "tenon_eval_";

// As what the column takes its operands.
struct HostClass {
  DType type;               // f64, f32 or i64
  std::string_view suffix;  // "f64_"
  std::string_view caller;  // the function that code calls: void(eval, values, operands, lanes, count)
};
HostClass host_class(const Op& row, DType operand);

// The address behind such a name, or null.
void* host_symbol(std::string_view name);

}  // namespace tenon::jit
