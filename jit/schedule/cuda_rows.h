// CudaRows: whether and how a team of threads can share the rows of a kernel. Its simd loops are in the par
// nest or in plain loops within it, or run over a tile of an axis of the par nest. The same lanes write and
// read each element of a local. No output is read back. schedule_rows makes their schedule at concrete sizes,
// for cuda_schedule.cc. Tested by tests/unit/jit/schedule/cuda_schedule_test.cc.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "jit/kernel/walk.h"
#include "jit/schedule/cuda_schedule.h"

namespace tenon::jit {

// The axis of the par nest whose tiles `axis` runs through. Null: there is none.
const Axis* tiled_axis(const Kernel& kernel, const Axis& axis);

class CudaRows {
 public:
  CudaRows(const Kernel& kernel, std::span<const int64_t> sizes);
  const Kernel& kernel() const { return k_; }
  std::span<const int64_t> sizes() const { return sizes_; }
  bool possible() const { return possible_; }
  bool fits_registers() const { return even_ && (!nested_ || (loops_ == 1 && locals_.empty())); }
  // Whether a par iteration has several rows, one after another.
  bool several() const { return several_; }
  // Whether several loops walk a row.
  bool again() const { return loops_ > 1; }
  // Whether a loop that walks a row writes an output.
  bool stores() const { return stores_; }
  int64_t longest() const { return longest_; }  // elements of a simd axis
  // Bytes per element of a row that stays in registers: locals, and inputs that several loops load.
  int64_t kept_bytes() const;

 private:
  void note(const Stmt& s, const Around& around);
  void local(const Stmt& s, const Stmt* simd);

  const Kernel& k_;
  std::span<const int64_t> sizes_;
  bool possible_ = false, even_ = true, nested_ = false, several_ = false, stores_ = false;
  int64_t longest_ = -1;
  Ref tile_ = kNoRef;  // the tile that the simd loops run through
  int loops_ = 0;
  std::map<int, std::vector<std::array<int64_t, 3>>> locals_;
  std::map<int, int> loads_;  // loads in simd loops, by input
};

// Bytes of the locals of a team; with a cluster, the part of one block.
int64_t bytes_of_locals(const Kernel& kernel, const CudaSchedule& schedule, std::span<const int64_t> sizes);

// The schedule of a kernel whose rows teams share. start: a schedule whose vector is chosen.
CudaDecision schedule_rows(const CudaRows& rows, const CudaDevice& device, int relax_level, bool joined,
                           const CudaSchedule& start);

}  // namespace tenon::jit
