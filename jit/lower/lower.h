// lower: a group of graph nodes becomes kernels. What a group may hold: maps, views, gathers, concatenations, pads and
// constants in any mix; reductions over one common set of axes with maps before, between and after; one scan; one
// scatter. Whether a set of nodes is such a group is answered by trying: fusion asks make_kernels() itself.
// On leaving, kernels read only materialised values and write every output exactly once.
// Tested by tests/golden/jit/lower_*.tn, tests/unit/runtime/run_test.cc and tests/fuzz/fuzz_test.cc.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "jit/kernel/kernel.h"
#include "jit/kernel/target.h"
#include "src/ir/graph.h"

namespace tenon::jit {

struct LowerInput {
  const Graph& graph;
  std::span<const ValueId> members;  // in topological order
  std::span<const ValueId> outputs;  // members whose values are needed outside
  // Strides in elements of a materialised value; absent: the value is a view to read through.
  std::function<std::optional<Dims>(ValueId)> strides;
  Target target = Target::cpu;
  // Set by make_kernels(): what is added up beside the loops over rows (blocked_column_sums.h), and the output that is: the sum, or its cast.
  struct Sum {
    ValueId fold, output;
  };
  std::vector<Sum> sums = {};
  bool is_sum(ValueId v) const {
    return std::ranges::any_of(sums, [&](const Sum& s) { return s.fold == v; });
  }
  // Set by make_kernels(): outputs that are dense reshapes are written under the shape of what they reshape.
  bool under_operand_shape = false;
  struct Output {
    ValueId value;
    Dims strides;
  };
  // What the loops compute for an output, and where they write it.
  Output written(ValueId output) const;
};

// Memory between the kernels of a group, free again when the last that names it has run.
struct Temp {
  DType type;
  Dim length;
};
inline constexpr ValueId kTempBuffer = 1u << 31;  // kTempBuffer + t in the list of buffers: temps[t]

struct LoweredKernel {
  Kernel kernel;
  Dims sizes;                        // the meaning of each size argument
  std::vector<ValueId> buffers;      // what each in/out buffer is
  std::vector<ValueId> faults = {};  // the node behind each number of a fault, from 1 on
  std::vector<Temp> temps = {};
  // Locals in which every par iteration is to add up a reduction of the group: blocked_column_sums.h sees to that.
  struct Sum {
    ValueId value;
    int buffer;
    OpId fold;
  };
  std::vector<Sum> sums = {};
  std::vector<ValueId> inplace =
      {};  // inputs that are read only where the (single) output is written, before it is
};

// A group as loops, before any rewrite.
struct Lowered {
  std::vector<LoweredKernel> loops;    // write the outputs; of a scatter they copy the operand
  std::vector<LoweredKernel> updates;  // of a scatter, behind `loops`
};
// unsupported with a sentence when no schedule covers the members.
Result<Lowered> lower(const LowerInput& input);
// Whether an output is a reshape that is stored densely: its loops may run over the operand's shape.
bool is_dense_reshape(const LowerInput& in, ValueId output);

}  // namespace tenon::jit
