// group_kernels: questions about the kernels of a group that every back end with loops asks, whatever its
// target. Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "jit/lower/lower.h"
#include "src/base/function_ref.h"
#include "src/ir/group.h"

namespace tenon::jit {

// Returns whether loops can run the node by itself; a group also needs a common schedule. unsupported: the
// reason.
Status has_loops(const Graph& graph, ValueId v);

// Returns whether one schedule covers `members`. Lowers the group as a trial and treats everything stored as
// dense. unsupported: the reason. uses: of the graph.
Status covers(const Graph& graph, const Uses& uses, std::span<const ValueId> members,
              Target target = Target::cpu);

// Returns whether the node may join the group of `members`. unsupported: the reason. uses: of the graph.
Status may_join(const Graph& graph, const Uses& uses, std::span<const ValueId> members, ValueId v,
                Target target = Target::cpu);

// For each kernel and each of its buffers, the position among the buffers of a step: the inputs of the group,
// then its outputs. -1: a temporary.
std::vector<std::vector<int>> positions(std::span<const LoweredKernel> kernels,
                                        std::span<const ValueId> inputs, std::span<const ValueId> outputs);

// Pairs (output, input) of positions where the output may reuse the memory of the input: every kernel that
// uses the input reads an element only at the address that it writes, before the write.
std::vector<std::pair<int, int>> inplace(std::span<const LoweredKernel> kernels,
                                         std::span<const ValueId> inputs, std::span<const ValueId> outputs);

// Where a kernel's buffers are when it runs: a position among the buffers of a step, or, at position -1, a temporary at an offset in
// bytes of the step's scratch memory.
struct Arguments {
  struct Argument {
    int position;
    int64_t offset;
    int64_t bytes;  // of a temporary
    bool writes;
    void* at(void* const* buffers, char* scratch) const {
      return position < 0 ? scratch + offset : buffers[position];
    }
  };
  std::vector<Argument> list;
  int64_t temps = 0;          // bytes of all temporaries
  bool writes_again = false;  // whether it writes elements that an earlier kernel of the group wrote
  // Whether it only copies elements of the first buffer to the same addresses of the second. There is nothing to do if both are one.
  bool copies = false;
};
// positions: of this kernel, as from positions(). eval: the value of a size.
Arguments arguments(const LoweredKernel& kernel, std::span<const int> positions,
                    FunctionRef<int64_t(Dim)> eval);

// The lengths of rows along which lanes run, where they are unknown: of the folded axes in a reduction, of the inner loops in a map. A loop
// through a tile counts as one through all tiles.
struct RowLength {
  int64_t factor;
  Dim size;              // the length is factor * size
  int64_t narrow_below;  // of the schedule: lanes across rows compute shorter ones faster
};
std::vector<RowLength> unknown_rows(std::span<const LoweredKernel> kernels);

// The texts of the kernels, one after the other.
std::string print(std::span<const LoweredKernel> kernels);

}  // namespace tenon::jit
