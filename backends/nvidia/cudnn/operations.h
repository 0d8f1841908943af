// Operations: builds a graph of the library, operation by operation. Intermediate values of the graph have no memory.
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
  // Adds the next tensor of the call. `what` must outlive everything, also in the functions below.
  Result<const Descriptor*> tensor(const Shape& shape, DType dtype, const char* what);
  // Adds a number that each call passes by a host pointer.
  Result<const Descriptor*> number(const char* what);
  // Adds an intermediate value, which one operation writes and another reads.
  Result<const Descriptor*> between(std::vector<int64_t> dims, DnnDataType type, const char* what);
  // Makes any other descriptor; the caller sets its attributes and calls done() or operation().
  Result<Descriptor> make(int type, const char* what) const { return Descriptor::make(library, type, what); }
  Status done(Descriptor part);  // finalizes and keeps a part that other descriptors refer to: see last()
  Status operation(Descriptor part);  // the same for an operation of the graph
  const Descriptor& last() const { return *parts_.back(); }

  // y = mode(x), mode(x, b), or where(t, x, b). Tensors have four axes; those of size 1 are broadcast.
  struct Pointwise {
    DnnPointwise mode;
    const Descriptor *x = nullptr, *b = nullptr, *t = nullptr, *y = nullptr;
    int64_t axis = -1;  // for kDnnIndex
  };
  Status pointwise(const Pointwise& p);
  Status product(const Descriptor& a, const Descriptor& b, const Descriptor& c);  // over the last two axes
  Status reduce(DnnReduction mode, const Descriptor& x, const Descriptor& y);     // along axes of size 1 in y

  // The graph, not finalized. This object must outlive it. handle: null if there is no device.
  Result<Descriptor> graph(DnnHandle handle) const;
  int tensors() const { return tensors_; }  // the number of tensors and numbers of the call

 private:
  // Adds the operation of type `type` with the finalized descriptor `how` as its attribute `is`, and with tensors by attribute;
  // null tensors are skipped.
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
