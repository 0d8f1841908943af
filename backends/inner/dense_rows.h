// DenseRows: copies of operands whose rows have gaps between the elements, for steps that read dense rows. Only such operands cost
// anything. Tested by tests/unit/backends/attention_test.cc and recurrent_test.cc.
#pragma once

#include "backends/inner/placed_operand.h"

namespace tenon::inner {

class DenseRows {
 public:
  // buffers: how many the step gets.
  explicit DenseRows(size_t buffers) : buffers_(buffers) {}

  // The operand becomes a row-major copy, unless its rows are dense. item: bytes of an element.
  void require(PlacedOperand& operand, int64_t item) {
    if (operand.used() && !operand.has_rows()) copy(operand, item);
  }
  void copy(PlacedOperand& operand, int64_t item);

  // A step that makes the copies and runs the given one, whose operands these are.
  std::unique_ptr<Step> before(std::unique_ptr<Step> step) &&;

 private:
  struct Copy {
    PlacedOperand from;
    int64_t item, at;  // at: bytes in front of it
  };
  class CopyingStep;

  size_t buffers_;
  std::vector<Copy> copies_;
  int64_t bytes_ = 0;  // of all copies
};

}  // namespace tenon::inner
