// CudaRows: what a team of threads can share of a kernel: simd loops that stand in the par nest or in plain loops within, or run
// over a tile of one of its axes, whose locals are each written and read by the same lanes, and no output that is read back.
// At concrete sizes, for cuda_schedule.cc. Tested by tests/unit/jit/cuda_schedule_test.cc.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

// The axis of the par nest through a tile of which this one runs; null: it runs through none of these.
const Axis* tiled_axis(const Kernel& kernel, const Axis& axis);

class CudaRows {
 public:
  CudaRows(const Kernel& kernel, std::span<const int64_t> sizes);
  bool possible() const { return possible_; }
  bool fits_registers() const { return even_ && (!nested_ || (loops_ == 1 && locals_.empty())); }
  // Whether a par iteration has rows of its own, one after another.
  bool several() const { return several_; }
  // Whether a row is gone through more than once.
  bool again() const { return loops_ > 1; }
  int64_t longest() const { return longest_; }  // elements of a simd axis
  // Of an element of the row that stays in registers: locals, and what several loops load.
  int64_t kept_bytes() const;

 private:
  void walk(const Block& block, const Stmt* simd, int depth);
  void local(const Stmt& s, const Stmt* simd);

  const Kernel& k_;
  std::span<const int64_t> sizes_;
  bool possible_ = false, even_ = true, nested_ = false, several_ = false;
  int64_t longest_ = -1;
  Ref tile_ = kNoRef;  // of the simd loops
  int loops_ = 0;
  std::map<int, std::vector<std::array<int64_t, 3>>> locals_;
  std::map<int, int> loads_;  // of inputs, in simd loops
};

}  // namespace tenon::jit
