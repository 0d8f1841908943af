// The step of a product of doubles. Its parallel items are a panel of columns by a block of rows; a thread packs the panel before it
// multiplies rows by it. Tested by tests/unit/backends/products_test.cc.
#pragma once

#include <vector>

#include "backends/inner/placed_operand.h"

namespace tenon::products {

using inner::PlacedOperand;

class PanelsStep final : public Step {
 public:
  // Set before plan(). x [..,M,K], matrix [..,K,N], bias [N] if used, y [..,M,N]; leading axes broadcast to those of y.
  PlacedOperand x, matrix, bias, y;

  void plan(int most_threads);
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override;
  int64_t scratch_bytes() const override {
    return threads_ * scratch_ * static_cast<int64_t>(sizeof(double));
  }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this); }

 private:
  struct Run;
  struct Batch {
    int64_t x, matrix, y;  // elements in front of it
  };
  void compute(const Run& run, int thread, int64_t item) const;

  std::vector<Batch> batches_;
  int64_t rows_ = 0, depth_ = 0, columns_ = 0;  // of a batch
  int64_t x_row_ = 0, y_row_ = 0;               // from one row to the next
  int64_t panels_ = 0, row_block_ = 0, row_blocks_ = 0;
  int64_t scratch_ = 0;  // doubles of a thread
  int threads_ = 1;
};

}  // namespace tenon::products
