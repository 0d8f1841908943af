// Handles: those of cuDNN on one device. The library allows a handle, and an execution plan too
// (github.com/pytorch/pytorch/pull/103939), one thread at a time, and a stream is set on a handle before each run: so a thread
// leases a handle for a run, or for the capture of one, without a lock, and plans belong to handles. Any thread.
// Tested by tests/unit/backends/cudnn_library_test.cc.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "backends/nvidia/cudnn/library.h"

namespace tenon::cudnn {

class Handle {
 public:
  static Result<std::unique_ptr<Handle>> open(const Library& library, const cuda::Device& device, int number);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  DnnHandle raw() const { return raw_; }
  int number() const { return number_; }  // below Handles::kMost; no two of a device have the same

 private:
  Handle(const Library& library, const cuda::Device& device, int number)
      : library_(library), device_(device), number_(number) {}

  const Library& library_;
  const cuda::Device& device_;
  const int number_;
  DnnHandle raw_ = nullptr;
};

class Handles {
 public:
  static constexpr int kMost = 32;  // at once

  // Of a device, kept. environment, unsupported: why there are none.
  static Result<Handles*> of(int ordinal);
  Handles(const Library& l, const cuda::Device& d) : library(l), device(d) {}
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles();

  const Library& library;
  const cuda::Device& device;

  // Goes back when the lease ends.
  struct GiveBack {
    Handles* to;
    void operator()(Handle* handle) const { to->give(std::unique_ptr<Handle>(handle)); }
  };
  using Lease = std::unique_ptr<Handle, GiveBack>;
  // Null where none is idle.
  Lease idle() { return Lease(take().release(), GiveBack{this}); }
  // The device's context is current. Where all are leased one is opened, or the thread waits if they are many.
  Result<Lease> lease();

 private:
  std::unique_ptr<Handle> take();
  void give(std::unique_ptr<Handle> handle);

  std::array<std::atomic<Handle*>, kMost> idle_{};
  std::mutex mutex_;  // of what follows
  int opened_ = 0;
};

// Forgets the handles of all devices, which nothing may use any more. For tests.
void forget_handles();

}  // namespace tenon::cudnn
