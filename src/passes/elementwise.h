// Properties of ops that passes ask for without naming the op. Tested by tests/golden/passes/*.tn.
#pragma once

#include "src/ir/op.h"
#include "src/ops/rules/rules.h"

namespace tenon {

// Whether each result element depends on one element of each operand: maps, and the activations among the
// composites.
inline bool is_elementwise(const Op& row) {
  if (row.kind == Kind::map) return true;
  return row.kind == Kind::composite && row.arity == 1 &&
         (row.shape == shapes::same || row.shape == shapes::gelu);
}

// Whether the op has the attributes axes and keepdims: reductions, mean, var, logsumexp.
inline bool folds_axes(const Op& row) { return row.kind != Kind::move && row.shape == shapes::reduce; }

inline int64_t wrap_axis(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

}  // namespace tenon
