// kernel_draft: a group as statements before its loops are known. Addresses are indices over the loop axes,
// buffers are values of the graph or locals, and loops have no axes of their own: an inner loop runs over all
// inner axes. lower.cc tries a set of axes, evaluate.cc makes the statements, schedule() decides, bind_loops.cc
// writes the kernel. Tested by tests/golden/jit/lower_*.tn.
#pragma once

#include <optional>
#include <vector>

#include "jit/analysis/index.h"
#include "jit/lower/lower.h"
#include "jit/schedule/schedule.h"

namespace tenon::jit {

struct DraftBuffer {
  enum class Kind : uint8_t { argument, local };
  Kind kind = Kind::argument;
  int number = 0;  // in KernelDraft::arguments or KernelDraft::locals
  int id() const { return kind == Kind::argument ? number : ~number; }  // differs from buffer to buffer
};

struct DraftStmt {
  Stmt stmt;                         // without buffer, address, axes and body
  DraftBuffer buffer = {};           // load, store
  Index address = {};                // load, store
  uint32_t axis = 0;                 // index: the loop axis whose variable it reads
  std::vector<DraftStmt> body = {};  // loop, reduce
};
using DraftBlock = std::vector<DraftStmt>;

struct KernelDraft {
  struct Local {
    DType type;
    Dim length;
  };
  struct Sum {  // as in LoweredKernel
    ValueId value;
    int local;
    OpId fold;
  };
  std::vector<DType> types;  // of the values
  DraftBlock body;           // of the par nest
  // Loads and stores, each once: the first loop over a row fetches it, and the next ones find it near.
  std::vector<Access> accesses;
  std::vector<ValueId> arguments;
  std::vector<Local> locals;
  Dims sizes;  // the Dim of each size argument
  std::vector<Sum> sums;
  std::vector<ValueId> faults;  // as in LoweredKernel
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
