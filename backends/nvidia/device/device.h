// Device: a GPU and its primary context, which the process shares with the framework; Current: that context on the calling
// thread for a while; Library: loaded machine code. What is retained, pushed or loaded is given back by the destructors.
// Nothing here waits for the GPU. Any thread, but a Current belongs to its own. Tested by tests/unit/backends/cuda_driver_test.cc.
#pragma once

#include <memory>
#include <string>

#include "backends/nvidia/device/driver.h"
#include "jit/cuda/nvrtc.h"
#include "jit/schedule/cuda_schedule.h"

namespace tenon::cuda {

// What the driver says of a device; makes no context. unsupported where it is older than sm_80.
Result<jit::CudaDevice> describe(const Driver& driver, int ordinal);

// Whether a device of this driver runs what the compiler makes. environment: the driver is of an older major version, and loads no code
// of a newer one; unsupported: the compiler makes none for the architecture.
Status check_compiler(const Driver& driver, const jit::Nvrtc& nvrtc, int architecture);

class Device {
 public:
  // invalid where there is no such device. The driver outlives the device, the device what is loaded on it.
  static Result<std::unique_ptr<Device>> open(const Driver& driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CuDevice handle() const { return handle_; }
  CuContext context() const { return context_; }
  const jit::CudaDevice& description() const { return description_; }

 private:
  Device(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}

  const Driver& driver_;
  int ordinal_;
  CuDevice handle_ = 0;
  CuContext context_ = nullptr;
  jit::CudaDevice description_;
};

// The device of this number, opened when first asked for and kept for the life of the process. environment, unsupported: why it
// cannot be used.
Result<const Device*> device(int ordinal);
// Closes all devices, which nothing may use any more. For tests.
void forget_devices();

// Pushes the device's context unless it is the current one; pops what it pushed.
class Current {
 public:
  explicit Current(const Device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  // Not ok: the context is not current.
  const Status& status() const { return status_; }

 private:
  const Driver& driver_;
  Status status_;
  bool pushed_ = false;
};

// While it lives, this thread may allocate, load and wait although some stream captures, of whichever thread: what Tenon makes is no
// part of anybody's capture, which the driver would end otherwise. Where the driver will not have it, those calls fail.
class Relaxed {
 public:
  explicit Relaxed(const Driver& driver);
  ~Relaxed();
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  const Driver& driver_;
  int former_ = kCuRelaxedCapture;
};

// environment where the stream captures, as nothing can be allocated, loaded or compiled then; `what` says what is missing.
Status may_make(const Device& device, CuStream stream, const std::string& what);

class Library {
 public:
  // code: a cubin, copied by the driver.
  static Result<std::unique_ptr<Library>> load(const Device& device, const std::string& code);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // The kernel in the device's context, loaded onto the device now, since that may be forbidden later (while a stream
  // captures). dynamic_shared_bytes: the most that a launch will ask for.
  Result<CuFunction> function(const std::string& name, int64_t dynamic_shared_bytes = 0) const;

 private:
  explicit Library(const Device& device) : device_(device) {}

  const Device& device_;
  CuLibrary handle_ = nullptr;
};

}  // namespace tenon::cuda
