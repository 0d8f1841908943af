// grouped_matmul: rows of one matrix fall into groups, each of which is multiplied by a matrix of its own. Where groups end is
// read when the step runs. The library has code for one number of rows at a time: a plan has calls for powers of two, and a
// group takes one or two of them, the second of which may compute again some rows of the first.
// Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include "backends/onednn/problem.h"

namespace tenon::onednn {

class Grouped final : public Executable {
 public:
  Spec one;  // the product of all rows by the first matrix
  Operand ends;
  Dim rows, groups;
  Dim step;  // elements from one matrix to the next

  // The product of `count` rows by one matrix.
  Problem of_rows(int64_t count, const Sizes& sizes) const;
  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override;
  std::string describe() const override { return "grouped_matmul"; }
};

// unsupported, with the reason, when the library is not used for it.
Result<std::unique_ptr<Grouped>> make_grouped(const Graph& graph, ValueId v, const StridesOf& strides_of);

}  // namespace tenon::onednn
