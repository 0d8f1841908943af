// Matrix: the operand of a recurrent node that its steps multiply by, with its bias, and the panels of its columns. Panels of
// constants are packed once; others are packed in the scratch memory of each run.
// Tested by tests/unit/backends/recurrent_test.cc.
#pragma once

#include <mutex>

#include "backends/inner/placed_operand.h"
#include "backends/inner/product.h"

namespace tenon::recurrent {

using inner::panel_width, inner::PlacedOperand;

// The floats of a panel with the bias of its columns in front.
inline int64_t panel_floats(int64_t depth) { return (depth + 1) * panel_width(); }

// The units that one thread computes in a step of the sequence: whole blocks, padded to panels.
struct UnitRange {
  int64_t from = 0, to = 0;      // blocks
  int64_t first = 0, units = 0;  // the units in them
  int64_t padded = 0;            // columns of their panels
};

// Distributes the units of a step with so many products over threads.
std::vector<UnitRange> unit_ranges(int64_t units, int64_t products, int threads);

// At the sizes of a plan. Block b has the columns from b * panel_width() on of each gate; its panels follow each other.
struct Columns {
  PlacedOperand weight, bias;
  int64_t gates = 1, size = 0, depth = 0;  // size: columns of a gate
  std::shared_ptr<const Arena> packed;     // null: pack() before use, unless in_place
  bool in_place = false;                   // too few products to pay for packing

  int64_t blocks() const;
  int64_t floats() const;  // of all panels
  const float* panel(const float* panels, int64_t block, int64_t gate) const;
  // A matrix in a run: its panels, or where it lies.
  struct Memory {
    const float *panels = nullptr, *weight = nullptr, *bias = nullptr;
  };
  // Writes bias + x times a block of a gate to y, up to panel_width() columns.
  void multiply(const Memory& memory, const float* x, int64_t x_stride, int64_t rows, int64_t block,
                int64_t gate, float* y, int64_t y_stride) const;
  void pack(const float* weight_at, const float* bias_at, int64_t from, int64_t to, float* panels) const;
  // Whether a run has to pack the matrix, in scratch memory of floats().
  bool needs_packing() const { return size > 0 && !packed && !in_place; }
  // The matrix in a run, packed into `panels` on that many threads if it needs packing.
  Memory in_run(void* const* buffers, float* panels, int threads, Parallel& parallel) const;
};

class Matrix {
 public:
  // Makes a matrix of one gate, which has no bias.
  explicit Matrix(Operand weight) : weight_(std::move(weight)) {}
  Matrix(Operand weight, std::optional<Operand> bias, int64_t gates)
      : weight_(std::move(weight)), bias_(std::move(bias)), gates_(gates) {}
  // products: how many rows a run multiplies by the matrix.
  Columns at(const Sizes& sizes, int64_t products, const Allocator& allocator);

 private:
  Operand weight_;
  std::optional<Operand> bias_;
  int64_t gates_ = 1;
  std::mutex mutex_;  // guards packed_
  std::shared_ptr<const Arena> packed_;
};

}  // namespace tenon::recurrent
