// GroupEnds: where the groups of rows of grouped_matmul and grouped_outer end. Tested by
// tests/unit/backends/onednn_products_test.cc.
#pragma once

#include "src/backend/backend.h"
#include "src/ops/rules/operand.h"

namespace tenon::onednn {

class GroupEnds {
 public:
  GroupEnds() = default;
  // ends: the operand, a vector, which is at `position` among the buffers of the step.
  GroupEnds(const Operand& ends, int position, int64_t rows, const Sizes& sizes);

  int64_t groups() const { return groups_; }
  int64_t scratch_bytes() const;
  // Sorts the ends, between 0 and the number of rows, into scratch.
  const int64_t* read(void* const* buffers, char* scratch) const;

 private:
  int position_ = -1;
  int64_t offset_ = 0, step_ = 0;  // bytes
  int64_t rows_ = 0, groups_ = 0;
  bool wide_ = false;  // i64; otherwise i32
};

}  // namespace tenon::onednn
