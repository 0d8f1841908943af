// The step of a product of few rows. Its parallel items are blocks of columns. If the rows of the matrix are dense and not very long,
// they are blocks of columns by parts of the depth, whose sums are added up last: memory delivers whole rows faster than pieces of rows.
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
  int64_t scratch_bytes() const override {
    return (threads_ * scratch_ + parts_floats()) * static_cast<int64_t>(sizeof(float));
  }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this); }

 private:
  struct Run;
  // The sums of all parts of the depth and their totals, which lie behind the scratch of all threads.
  int64_t parts_floats() const { return parts_ > 1 ? (parts_ + 1) * row_count() * columns_ : 0; }
  int64_t row_count() const { return static_cast<int64_t>(x_rows_.size()); }
  // The product by rows `first` to `end` of the matrix. x is in place, or copied to the scratch of the thread.
  inner::FewRows product(const Run& run, float* scratch, int64_t first, int64_t end) const;
  // Sets the result, from this row on, and the bias of a product whose result is not copied.
  void finish(const Run& run, int64_t row, inner::FewRows& product) const;
  // Items [begin, end) of the parallel run: blocks of columns, of one part of the depth after another.
  void compute_items(const Run& run, int thread, int64_t begin, int64_t end) const;
  void compute(const Run& run, int thread, int64_t from, int64_t end) const;
  void compute_part(const Run& run, int thread, int64_t part, int64_t from, int64_t end) const;
  void add_parts(const Run& run) const;
  void copy_rows(const char* from, int64_t first, int64_t end, float* to) const;
  void store(const Run& run, const float* sums, int64_t sums_stride, int64_t from, int64_t end) const;

  std::vector<int64_t> x_rows_, y_rows_;           // elements in front of each row
  int64_t depth_ = 0, columns_ = 0, scratch_ = 0;  // scratch_: floats of a thread
  int64_t parts_ = 1;   // of the depth; follows from the sizes, as the order of sums does
  int64_t blocks_ = 1;  // of columns
  bool copies_x_ = false, copies_y_ = false;
  int threads_ = 1;
};

}  // namespace tenon::products
