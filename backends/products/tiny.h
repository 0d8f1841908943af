// The step of a batch of products of tiny matrices. Its parallel items are the products. Operands are read where they lie, with any
// strides. Tested by tests/unit/backends/tiny_batch_test.cc.
#pragma once

#include <vector>

#include "backends/inner/placed_operand.h"

namespace tenon::products {

using inner::PlacedOperand;

class TinyBatchStep final : public Step {
 public:
  // Set before plan(). a [..,M,K], b [..,K,N], y [..,M,N]; leading axes broadcast to those of y.
  DType dtype = DType::f32;
  PlacedOperand a, b, y;

  void plan(int most_threads);
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override;
  int64_t scratch_bytes() const override { return 0; }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this); }

 private:
  struct Run;
  struct Axis {
    int64_t size, a, b, y;  // a, b, y: elements from one index to the next
  };
  template <class T>
  void compute(const Run& run, int64_t begin, int64_t end) const;

  std::vector<Axis> outer_;  // axes of the batch but the last
  Axis inner_ = {1, 0, 0, 0};
  int64_t count_ = 1;  // of products
  int threads_ = 1;
};

}  // namespace tenon::products
