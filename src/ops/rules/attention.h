// The operands behind q, k and v of the rows attention and attention_gradient, and the scale. Tested by tests/unit/ops/ops_test.cc.
#pragma once

#include <cmath>

#include "src/ir/graph.h"
#include "src/ops/rows/names.h"

namespace tenon {

// Positions of operands, -1 without the operand.
struct AttentionOperands {
  int mask = -1;  // added to the scores
  int kept = -1;  // bool, with dropout: the weights that are kept, [B,H,L,S]
};

inline AttentionOperands attention_operands(const Node& node) {
  AttentionOperands found;
  const int first = node.op == ops::attention ? 3 : 4;
  int end = static_cast<int>(node.inputs.size());
  if (attr_as<double>(node, "dropout") != 0 && end > first) found.kept = --end;
  if (end > first) found.mask = first;
  return found;
}

// AttentionScale is the factor of the scores.
struct AttentionScale {
  double number = 1;
  bool over_root = false;  // the factor is number / sqrt(head size), else number

  double at(int64_t head_size) const {
    return over_root ? number / std::sqrt(static_cast<double>(head_size)) : number;
  }
};

inline AttentionScale attention_scale(const Node& node) {
  return {attr_as<double>(node, "scale"), attr_as<bool>(node, "over_root")};
}

}  // namespace tenon
