// Driver: the CUDA driver, opened at run time and never linked. Its functions are members with the driver's names; each returns a
// Status that states which call failed, with the driver's error text. Opening it calls cuInit and makes no context.
// Immutable once open; any thread. Tested by tests/unit/backends/cuda_driver_test.cc.
#pragma once

#include <memory>
#include <string>

#include "backends/nvidia/device/driver_api.h"
#include "src/base/shared_library.h"

namespace tenon::cuda {

class Driver {
 public:
  // The driver of the process; never closed. environment, with what was tried or the driver's answer: there is no driver, it is
  // older than CUDA 12.0, it lacks a function, or there is no GPU.
  static Result<const Driver*> get();
  static Result<std::unique_ptr<Driver>> open(const LibrarySearch& search);
  static LibrarySearch search();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const std::string& path() const { return library_.path(); }
  int version() const { return version_; }  // 13000: CUDA 13.0
  int devices() const { return devices_; }
  // environment: "cuMemAllocFromPoolAsync: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
  Status failure(const char* call, int error) const;

#define X(name, ...) LibraryFunction<Driver, int(__VA_ARGS__)> name;
  TENON_CUDA_DRIVER(X)
#undef X

 private:
  Driver() = default;

  SharedLibrary library_;
  int version_ = 0;
  int devices_ = 0;
};

// 13000 as "13.0".
std::string version_text(int version);

}  // namespace tenon::cuda
