// lower: turns a group of graph nodes into kernels. A group may hold maps, views, gathers, concatenations,
// pads and constants in any mix; reductions over one common set of axes, with maps before, between and after;
// one scan; one scatter, and a reshape behind it. Lowering itself decides whether a set of nodes is such a group:
// fusion calls make_kernels() and reads the status. On leaving, kernels read only materialised values and write every
// output exactly once. Tested by tests/golden/jit/lower_*.tn, tests/unit/runtime/run_test.cc and
// tests/fuzz/fuzz_test.cc.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "jit/kernel/kernel.h"
#include "jit/kernel/target.h"
#include "src/ir/graph.h"

namespace tenon::jit {

struct LowerInput {
  const Graph& graph;
  std::span<const ValueId> members;  // in topological order
  std::span<const ValueId> outputs;  // members whose values are needed outside
  // Strides of a materialised value, in elements. Nothing: the value is a view that loops read through.
  std::function<std::optional<Dims>(ValueId)> strides;
  Target target = Target::cpu;
  // Whether the inner loops of unknown length are taken to be narrow (schedule.h). The kernels are right for any length.
  bool short_rows = false;
  // Set by make_kernels(): a reduction that is added up beside the loops over rows (blocked_column_sums.h),
  // and the output that holds it: the sum itself or its cast.
  struct Sum {
    ValueId fold, output;
  };
  std::vector<Sum> sums = {};
  bool is_sum(ValueId v) const {
    return std::ranges::any_of(sums, [&](const Sum& s) { return s.fold == v; });
  }
  // Set by make_kernels(): an output that is a dense reshape is written with the shape of its operand.
  bool under_operand_shape = false;
  struct Output {
    ValueId value;
    Dims strides;
  };
  // The value that the loops compute for an output, and the strides with which they write it. An output that copies a transpose is written
  // as the operand of the transpose if its memory has this order.
  Output written(ValueId output) const;
};

// Memory between the kernels of a group. It is free again after the last kernel that names it.
struct Temp {
  DType type;
  Dim length;
};
enum class TempId : int {};  // an index into LoweredKernel::temps
using BufferId = std::variant<ValueId, TempId>;

struct LoweredKernel {
  Kernel kernel;
  Dims sizes;                        // the Dim of each size argument
  std::vector<BufferId> buffers;     // what each in/out buffer holds
  std::vector<ValueId> faults = {};  // the node of each fault number, from 1 on
  std::vector<Temp> temps = {};
  // Locals in which every par iteration adds up a reduction of the group, once blocked_column_sums has
  // rewritten the kernel.
  struct Sum {
    ValueId value;
    int buffer;
    OpId fold;
  };
  std::vector<Sum> sums = {};
  // Inputs that are read only at the address where the (single) output is written, before the write.
  std::vector<ValueId> inplace = {};
  int64_t narrow_below = 0;   // of its schedule
  bool writes_again = false;  // whether it writes elements that an earlier kernel of the group wrote
  bool uses(ValueId v) const { return std::ranges::count(buffers, BufferId(v)) > 0; }
  const Temp& temp(TempId t) const { return temps[static_cast<size_t>(t)]; }
  // Names the size arguments of the kernel.
  void name_sizes() {
    kernel.sizes.clear();
    for (size_t s = 0; s < sizes.size(); ++s) kernel.sizes.push_back("s" + std::to_string(s));
  }
};

// The position of the element. Adds it at the end if the list does not have it.
template <class T>
int number_in(std::vector<T>& list, const T& element) {
  auto found = std::ranges::find(list, element);
  if (found == list.end()) found = list.insert(found, element);
  return static_cast<int>(found - list.begin());
}

// A group as loops, before any rewrite.
struct Lowered {
  std::vector<LoweredKernel> loops;    // write the outputs; of a scatter, they copy its operand
  std::vector<LoweredKernel> updates;  // of a scatter; run after `loops`
};
// unsupported: no schedule covers the members; the message is a sentence.
Result<Lowered> lower(const LowerInput& input);
// Whether an output is a reshape that is stored densely, so that its loops may run over the shape of the
// operand.
bool is_dense_reshape(const LowerInput& in, ValueId output);

}  // namespace tenon::jit
