// proto: a group as statements before its loops are known. Addresses are indices over the loop axes, buffers are values of
// the graph, loops have no axes of their own: an inner loop runs over all inner axes. lower.cc tries a set of axes,
// evaluate.cc makes the statements, schedule() decides, bind_loops.cc writes the kernel. Tested by tests/golden/jit/lower_*.tn.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "jit/analysis/index.h"
#include "jit/lower/lower.h"
#include "jit/schedule/schedule.h"

namespace tenon::jit {

constexpr int kLocalBase = 1 << 20;  // buffer numbers of locals, until ins and outs are all known

struct Proto {
  struct Local {
    DType type;
    Dim length;
  };
  Kernel kernel;  // its values only
  Block body;     // of the par nest; load and store: size is the number of their access
  std::vector<Access> accesses;
  std::vector<ValueId> buffers;
  std::vector<Local> locals;
  Dims sizes;                               // the meaning of each size argument
  std::map<int, std::vector<Index>> loads;  // per buffer
  std::vector<Index> stores;                // to outputs
  std::vector<LoweredKernel::Sum> sums;     // their buffers are locals
  std::vector<ValueId> faults;              // as in LoweredKernel

  int size_number(Dim d);
  int fault_number(ValueId node);
};

// A kernel, or how the axes must change before there is one.
struct Attempt {
  std::optional<Request> request;
  std::optional<LoweredKernel> kernel;
};
Attempt lower_axes(const LowerInput& in, const std::vector<DomainDim>& domain, std::vector<LoopAxis> axes);

LoweredKernel finish(const LowerInput& in, const std::vector<LoopAxis>& axes, const Schedule& schedule,
                     Proto proto);

}  // namespace tenon::jit
