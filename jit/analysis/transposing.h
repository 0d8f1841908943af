// TransposingMap: a kernel that is one map over nested axes and reads or writes side by side along another axis than the one
// its lanes run along. Any order of lanes then jumps in some buffer; a tile of both axes that goes through fast memory
// does not. Says which axes and accesses these are, for the schedule and the emitter of a GPU.
// Tested by tests/unit/jit/emit_cuda_test.cc, tests/unit/jit/cuda_schedule_test.cc.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

struct TransposingMap {
  Kernel kernel;       // par over all axes, lanes along the last one, scalars within
  Axis along, across;  // the axis of lanes; the one along which the others lie together
  std::vector<size_t>
      crossing;  // statements of the par body: loads and stores that jump along `along`, and step by one along `across`
  const Stmt& statement(size_t i) const { return kernel.body[0].body[i]; }
  bool crosses(const Stmt& s) const {
    return std::ranges::any_of(crossing, [&](size_t i) { return &statement(i) == &s; });
  }
};

// A kernel that is one map, its inner loop made part of the par nest; nothing where it has other loops, locals or tiles, or reads
// its own output.
std::optional<Kernel> merge_map(const Kernel& kernel);
// Nothing where the kernel is no such map, or no access of it jumps.
std::optional<TransposingMap> transposing_map(const Kernel& kernel);

}  // namespace tenon::jit
