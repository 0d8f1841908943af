// The step of a product of few rows. Its parallel items are blocks of columns.
// Tested by tests/unit/backends/products_test.cc.
#pragma once

#include <vector>

#include "backends/inner/few_rows.h"
#include "backends/inner/placed_operand.h"

namespace tenon::products {

using inner::PlacedOperand;

class FewRowsStep final : public Step {
 public:
  // Set before plan(). x [...,K], matrix with strides of [K,N], bias [N] if used, y [...,N].
  DType dtype = DType::f32;
  PlacedOperand x, matrix, bias, y;

  void plan(int most_threads);
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override;
  int64_t scratch_bytes() const override { return threads_ * scratch_ * static_cast<int64_t>(sizeof(float)); }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this); }

 private:
  struct Run;
  void compute(const Run& run, int thread, int64_t from, int64_t end) const;
  void copy_rows(const char* from, float* to) const;
  void store(const Run& run, const float* sums, int64_t from, int64_t end) const;

  std::vector<int64_t> x_rows_, y_rows_;           // elements in front of each row
  int64_t depth_ = 0, columns_ = 0, scratch_ = 0;  // scratch_: floats of a thread
  bool copies_x_ = false, copies_y_ = false;
  int threads_ = 1;
};

}  // namespace tenon::products
