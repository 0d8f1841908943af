// Algorithm: what cuBLASLt chose for a problem: its algorithm, with the descriptors that say the problem. Made once per problem,
// device and alignment of the pointers, also when several threads ask at once, and kept, those that were asked for last.
// Any thread; a run takes no lock and, unless runs of one algorithm with a bias meet, allocates nothing.
// Tested by tests/unit/backends/cublaslt_test.cc.
#pragma once

#include <atomic>
#include <memory>

#include "backends/nvidia/cublaslt/library.h"
#include "backends/nvidia/cublaslt/problem.h"

namespace tenon::cublaslt {

// Of a call, on the device, but for alpha and beta.
struct Pointers {
  const void *a, *b, *c;
  void* d;
  const void* bias;
  void* workspace;
};

// A descriptor of the library; goes back with its owner.
template <class T>
class Descriptor {
 public:
  using Destroy = Function<int(T)> Library::*;
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
  // The best for pointers of which all are multiples of `alignment` bytes and for so much workspace. unsupported where the
  // library has none.
  static Result<std::shared_ptr<const Algorithm>> of(const Handle& handle, const Problem& problem,
                                                     int64_t alignment, int64_t most_workspace);
  ~Algorithm();

  int64_t workspace_bytes() const { return static_cast<int64_t>(chosen_.workspace); }
  int64_t bytes() const { return sizeof *this + 1024; }  // about, with what the library holds
  // The device's context is current.
  Status run(double alpha, double beta, const Pointers& pointers, void* stream) const;

  // Use of().
  explicit Algorithm(const Handle& handle, const Problem& problem);

 private:
  Status describe(const Problem& problem);
  Result<std::unique_ptr<Descriptor<LtMatmul>>> matmul(const void* bias) const;
  Status ask(int64_t alignment, int64_t most_workspace);

  const Handle& handle_;
  const Problem problem_;
  Descriptor<LtLayout> a_, b_, c_, d_;
  LtHeuristic chosen_ = {};
  // The bias is part of the operation's descriptor, so a run needs one of its own; without a bias all share it.
  mutable std::atomic<Descriptor<LtMatmul>*> spare_{nullptr};
};

// Forgets all algorithms. For tests.
void forget_algorithms();

}  // namespace tenon::cublaslt
