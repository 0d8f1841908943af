// Algorithm: the algorithm that cuBLASLt chose for a problem, and the descriptors of the problem. It is made once per problem,
// device and alignment of the pointers, also if several threads ask at once; the process keeps the most recently used ones.
// Any thread. A run takes no lock; it allocates only if another run of the same algorithm with a bias is under way.
// Tested by tests/unit/backends/cublaslt_test.cc.
#pragma once

#include <atomic>
#include <memory>

#include "backends/nvidia/cublaslt/library.h"
#include "backends/nvidia/cublaslt/problem.h"

namespace tenon::cublaslt {

// The arguments of a call, all on the device.
struct Pointers {
  const void *a, *b, *c;
  void* d;
  const void* bias;
  void* workspace;
};

// A descriptor of the library; its destructor destroys it.
template <class T>
class Descriptor {
 public:
  using Destroy = LibraryFunction<Library, int(T)> Library::*;
  Descriptor(const Library& library, Destroy destroy) : library_(library), destroy_(destroy) {}
  ~Descriptor() {
    if (raw_) (library_.*destroy_).status_of(raw_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T raw() const { return raw_; }
  T* place() { return &raw_; }

 private:
  const Library& library_;
  const Destroy destroy_;
  T raw_ = nullptr;
};

class Algorithm {
 public:
  // The best algorithm for pointers that are multiples of `alignment` bytes and for at most so much workspace. unsupported: the
  // library has none.
  static Result<std::shared_ptr<const Algorithm>> of(const Handle& handle, const Problem& problem,
                                                     int64_t alignment, int64_t most_workspace);
  ~Algorithm();

  int64_t workspace_bytes() const { return static_cast<int64_t>(chosen_.workspace); }
  int64_t bytes() const { return sizeof *this + 1024; }  // an estimate that includes the library's objects
  // The caller makes the device's context current.
  Status run(double alpha, double beta, const Pointers& pointers, void* stream) const;

  // Use of() instead.
  explicit Algorithm(const Handle& handle, const Problem& problem);

 private:
  Status describe(const Problem& problem);
  Result<std::unique_ptr<Descriptor<LtMatmul>>> matmul(const void* bias) const;
  Status ask(int64_t alignment, int64_t most_workspace);

  const Handle& handle_;
  const Problem problem_;
  Descriptor<LtLayout> a_, b_, c_, d_;
  LtHeuristic chosen_ = {};
  // An idle descriptor of the operation. With a bias a run takes it away and gives it back, since the pointer to the bias is part
  // of the descriptor; without a bias all runs share it.
  mutable std::atomic<Descriptor<LtMatmul>*> spare_{nullptr};
};

}  // namespace tenon::cublaslt
