// Cell: the functions behind the products of one step, as a kernel of the CPU back end: from the inputs of the gates to the next
// hidden state, and to the next cell of an LSTM. Tested by tests/unit/backends/recurrent_test.cc.
#pragma once

#include "backends/inner/kernel.h"

namespace tenon::recurrent {

class Cell {
 public:
  static Result<std::unique_ptr<Cell>> make(std::string_view mode, const Allocator& allocator);

  // The sizes of a call in elements. Units are dense; a stride leads from one row of the batch to the next.
  struct Shape {
    int64_t rows, units;
    int64_t x_stride, s_stride, state_stride,
        result_stride;  // state: of h in mode gru, of the cell in mode lstm
  };
  Result<std::unique_ptr<Step>> prepare(const Shape& shape) const;

  // Runs a step of prepare() on the calling thread. x, s: the inputs of gate 0 from the sequence and from the state; the inputs
  // of the next gate lie x_by and s_by elements further. state: see Shape; null in the other modes. cell: the next cell, dense;
  // null but for an LSTM. result: the next hidden state.
  Status run(const Step& step, const float* x, int64_t x_by, const float* s, int64_t s_by, const float* state,
             float* cell, float* result, char* scratch) const;

  std::string describe() const { return kernel_->describe(); }
  int gates() const { return gates_; }
  int compiled() const { return kernel_->compiled(); }

 private:
  int gates_ = 0;
  bool has_state_ = false;
  std::unique_ptr<inner::Kernel> kernel_;
};

}  // namespace tenon::recurrent
