// kernel_draft: a group as statements before its loops are known. Addresses are indices over the loop axes,
// buffers are values of the graph, and loops have no axes of their own: an inner loop runs over all inner
// axes. lower.cc tries a set of axes, evaluate.cc makes the statements, schedule() decides, bind_loops.cc
// writes the kernel. Tested by tests/golden/jit/lower_*.tn.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "jit/analysis/index.h"
#include "jit/lower/lower.h"
#include "jit/schedule/schedule.h"

namespace tenon::jit {

constexpr int kLocalBase = 1 << 20;  // first buffer number of locals, until all inputs and outputs are known

struct KernelDraft {
  struct Local {
    DType type;
    Dim length;
  };
  Kernel kernel;  // names and types of values only
  Block body;     // of the par nest; in a load or store, size is the index in `accesses`
  std::vector<Access> accesses;
  std::vector<ValueId> buffers;
  std::vector<Local> locals;
  Dims sizes;                               // the Dim of each size argument
  std::map<int, std::vector<Index>> loads;  // per buffer
  std::vector<Index> stores;                // to outputs
  std::vector<LoweredKernel::Sum> sums;     // their buffers are locals
  std::vector<ValueId> faults;              // as in LoweredKernel

  int size_number(Dim d);
  int fault_number(ValueId node);
};

// A kernel, or the change of the axes that lowering needs first.
struct Attempt {
  std::optional<Request> request;
  std::optional<LoweredKernel> kernel;
};
Attempt lower_axes(const LowerInput& in, const std::vector<DomainDim>& domain, std::vector<LoopAxis> axes);

LoweredKernel bind_loops(const LowerInput& in, const std::vector<LoopAxis>& axes, const Schedule& schedule,
                         KernelDraft draft);

}  // namespace tenon::jit
