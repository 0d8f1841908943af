// CellGradient: the functions around the products of one step of a gradient, as kernels of the CPU back end: from the gradient of a hidden
// state to those of the gates and, without the products, of the state before. Tested by tests/unit/backends/recurrent_gradient_test.cc.
#pragma once

#include "backends/inner/kernel.h"

namespace tenon::recurrent {

class CellGradient {
 public:
  static Result<std::unique_ptr<CellGradient>> make(std::string_view mode, const Allocator& allocator);

  // The sizes of a call in elements. Units are dense; a stride leads from one row of the batch to the next. size: of a state, whose
  // rows are dense, and the distance of the gates.
  struct Shape {
    int64_t rows, units, size;
    int64_t x_stride, s_stride, dy_stride, product_stride;
  };
  Result<std::unique_ptr<Step>> prepare(const Shape& shape) const;
  // Only an LSTM has this kernel. It computes the cell behind a step from the cell in front of it.
  Result<std::unique_ptr<Step>> prepare_cell(const Shape& shape) const;

  // The addresses of a step: the inputs x and s of its gates, the gradient dy of its hidden state, as the graph and as `product`, the
  // product of the later step, give it. before, after: the hidden states or, of an LSTM, the cells. carry: the gradient of `after`
  // that comes from the later step without a product; next: that of `before`. Null where a mode has no such operand.
  struct At {
    const float *x, *s, *dy, *product, *carry, *before, *after;
    float *dx, *ds, *next;
    int64_t size;
  };
  // These run a step of prepare() and of prepare_cell() on the calling thread.
  Status run(const Step& step, const At& at, char* scratch) const;
  Status run_cell(const Step& step, const At& at, float* after, char* scratch) const;

  std::string describe() const;
  int compiled() const;

 private:
  int gates_ = 0;
  std::unique_ptr<inner::Kernel> kernel_;
  std::unique_ptr<inner::Kernel> cell_;  // of an LSTM
};

}  // namespace tenon::recurrent
