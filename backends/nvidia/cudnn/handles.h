// Handles: the handles of cuDNN on one device. Only one thread at a time may use a handle or an execution plan
// (github.com/pytorch/pytorch/pull/103939), and the stream is set on the handle before each run. Therefore a thread leases a handle
// for a run or for its capture, without a lock, and each plan belongs to one handle. Any thread.
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
  int number() const { return number_; }  // unique per device, below Handles::kMost

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
  static constexpr int kMost = 32;  // handles per device

  // The handles of a device, kept for the life of the process. environment, unsupported: why there are none.
  static Result<Handles*> of(int ordinal);
  Handles(const Library& l, const cuda::Device& d) : library(l), device(d) {}
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles();

  const Library& library;
  const cuda::Device& device;

  // Returns the handle when the lease ends.
  struct GiveBack {
    Handles* to;
    void operator()(Handle* handle) const { to->give(std::unique_ptr<Handle>(handle)); }
  };
  using Lease = std::unique_ptr<Handle, GiveBack>;
  // Null: no handle is idle.
  Lease idle() { return Lease(take().release(), GiveBack{this}); }
  // The caller makes the device's context current. If no handle is idle, this opens one; if kMost are open, it waits for one.
  Result<Lease> lease();

 private:
  std::unique_ptr<Handle> take();
  void give(std::unique_ptr<Handle> handle);

  std::array<std::atomic<Handle*>, kMost> idle_{};
  std::mutex mutex_;  // guards opened_
  int opened_ = 0;
};

// Forgets the handles of all devices; nothing may use them any more. For tests.
void forget_handles();

}  // namespace tenon::cudnn
