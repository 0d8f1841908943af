// Device: a GPU and its primary context, which the process shares with the framework. Current: makes that context current on the
// calling thread while it lives. Library: loaded machine code. Destructors release the context, pop it, and unload the code.
// Nothing here waits for the GPU. Any thread, except that a Current belongs to one thread.
// Tested by tests/unit/backends/cuda_driver_test.cc.
#pragma once

#include <memory>
#include <string>

#include "backends/nvidia/device/driver.h"
#include "jit/cuda/nvrtc.h"
#include "jit/schedule/cuda_schedule.h"

namespace tenon::cuda {

// The driver's description of a device; makes no context. unsupported: the device is older than sm_80.
Result<jit::CudaDevice> describe(const Driver& driver, int ordinal);

// Whether a device of this driver runs the compiler's code. environment: the driver's major version is older than the compiler's,
// so it does not load the code. unsupported: the compiler makes no code for the architecture.
Status check_compiler(const Driver& driver, const jit::Nvrtc& nvrtc, int architecture);

class Device {
 public:
  // invalid: there is no such device. The driver must outlive the device, and the device every library loaded on it.
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

// The device of this number, opened by the first call and kept for the life of the process. environment, unsupported: why it
// cannot be used.
Result<const Device*> device(int ordinal);
// Closes all devices; nothing may use them any more. For tests.
void forget_devices();

// Pushes the device's context unless it is current already. The destructor pops it if it was pushed.
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

// While a Relaxed lives, its thread may allocate, load and wait although a stream of any thread captures. Without it the driver would
// invalidate that capture. If the driver refuses the relaxed mode, allocations and loads may fail.
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

// environment: the stream captures, so nothing can be allocated, loaded or compiled. `what` states what is missing.
Status may_make(const Device& device, CuStream stream, const std::string& what);

class Library {
 public:
  // code: a cubin, copied by the driver.
  static Result<std::unique_ptr<Library>> load(const Device& device, const std::string& code);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // The kernel in the device's context. Loads it onto the device now, since that is forbidden while a stream captures.
  // dynamic_shared_bytes: the most that a launch will use.
  Result<CuFunction> function(const std::string& name, int64_t dynamic_shared_bytes = 0) const;

 private:
  explicit Library(const Device& device) : device_(device) {}

  const Device& device_;
  CuLibrary handle_ = nullptr;
};

}  // namespace tenon::cuda
