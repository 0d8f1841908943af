// Operations: those of a graph of the library, as they are described one by one. What does not leave the graph has no memory.
// Tested by tests/unit/backends/cudnn_test.cc; on NVIDIA's library by tests/unit/backends/cudnn_plan_test.cc.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "backends/nvidia/cudnn/library.h"
#include "src/ir/dtype.h"

namespace tenon::cudnn {

DnnDataType library_type(DType dtype);

class Operations {
 public:
  Operations(const Library& l, int64_t a) : library(l), alignment(a) {}
  const Library& library;
  const int64_t alignment;  // of the tensors in memory, bytes

  struct Shape {
    std::vector<int64_t> dims, strides;  // elements
  };
  // A tensor of the call, in its order. `what` outlives everything, here as below.
  Result<const Descriptor*> tensor(const Shape& shape, DType dtype, const char* what);
  // A number of the call, given with its pointers.
  Result<const Descriptor*> number(const char* what);
  // What an operation makes and another reads.
  Result<const Descriptor*> between(std::vector<int64_t> dims, DnnDataType type, const char* what);
  // Anything else; the caller sets it and says done().
  Result<Descriptor> make(int type, const char* what) const { return Descriptor::make(library, type, what); }
  Status done(Descriptor part);       // to be named by others: see last()
  Status operation(Descriptor part);  // of the graph
  const Descriptor& last() const { return *parts_.back(); }

  // y = mode(x), mode(x, b), or where(t, x, b); of four axes, those of size 1 repeated.
  struct Pointwise {
    DnnPointwise mode;
    const Descriptor *x = nullptr, *b = nullptr, *t = nullptr, *y = nullptr;
    int64_t axis = -1;  // of kDnnIndex
  };
  Status pointwise(const Pointwise& p);
  Status product(const Descriptor& a, const Descriptor& b, const Descriptor& c);  // over the last two axes
  Status reduce(DnnReduction mode, const Descriptor& x, const Descriptor& y);     // along axes of size 1 in y

  // The graph, not finalized; all that is described must outlive it. handle: null where there is no device.
  Result<Descriptor> graph(DnnHandle handle) const;
  int tensors() const { return tensors_; }  // of the call, and numbers

 private:
  // What `how` says, on tensors by their attributes, as far as they are there.
  struct Applied {
    int type;
    const char* what;
    int is;
    std::vector<std::pair<int, const Descriptor*>> tensors;
  };
  Status apply(Descriptor how, const Applied& applied);
  Result<const Descriptor*> finished(Descriptor tensor, const Shape& shape, DnnDataType type, int64_t id);

  std::vector<std::unique_ptr<Descriptor>> parts_;
  std::vector<DnnDescriptor> operations_;
  int tensors_ = 0, between_ = 0;
};

}  // namespace tenon::cudnn
