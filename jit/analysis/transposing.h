// TransposingMap: a kernel that is one map over nested axes whose loads or stores include some that step by
// one along another axis than the axis of lanes. Every order of lanes then jumps in some buffer; a tile of
// both axes in fast memory avoids the jumps. Names these axes and accesses for the schedule and the emitter
// of a GPU. Tested by tests/unit/jit/cuda/emit_cuda_test.cc and tests/unit/jit/schedule/cuda_schedule_test.cc.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

struct TransposingMap {
  Kernel kernel;       // par over all axes, lanes along the last one, scalars within
  Axis along, across;  // axis of lanes; axis along which crossing accesses step by one
  // Statements of the par body: loads and stores that jump along `along` and step by one along `across`.
  std::vector<size_t> crossing;
  const Stmt& statement(size_t i) const { return kernel.body[0].body[i]; }
  bool crosses(const Stmt& s) const {
    return std::ranges::any_of(crossing, [&](size_t i) { return &statement(i) == &s; });
  }
};

// Makes the inner loop of a map part of the par nest. Nothing if the kernel has other loops, locals or tiles,
// or reads its own output.
std::optional<Kernel> merge_map(const Kernel& kernel);
// Nothing if the kernel is no such map or no access jumps.
std::optional<TransposingMap> transposing_map(const Kernel& kernel);

}  // namespace tenon::jit
