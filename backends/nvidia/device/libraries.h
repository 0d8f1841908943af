// Code that cuBLASLt and cuDNN share: it says where to search for a library and how to read its version, and holds the one library of
// the process and one object per device. Any thread. Tested by tests/unit/backends/cuda_driver_test.cc,
// tests/unit/backends/cublaslt_library_test.cc and tests/unit/backends/cudnn_library_test.cc.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backends/nvidia/device/device.h"
#include "src/base/shared_library.h"

namespace tenon::cuda {

LibrarySearch cublaslt_search();
LibrarySearch cudnn_search();

// 91901 as "9.19.1"; 8907, of a cuDNN before 9, as "8.9.7".
std::string release_text(size_t version);
// The version that the function `symbol` of the library returns. environment: there is no such function, or the version is older
// than `oldest`.
Result<size_t> version_of(const SharedLibrary& library, const std::string& what, const char* symbol,
                          size_t oldest = 0);

// Opens the driver and a library. environment: why one of them is not there.
template <class Library>
Status check_present() {
  TENON_TRY(Driver::get().status());
  return Library::get().status();
}

// Opens a library with the first get(). If that fails, later calls return the same error and do not try again.
template <class Library>
class OpenOnce {
 public:
  Result<const Library*> get(LibrarySearch (*search)()) {
    std::lock_guard lock(mutex_);
    if (!library_) library_.emplace(Library::open(search()));
    if (!library_->ok()) return library_->status();
    return (*library_)->get();
  }
  // Null: get() was not called yet, or it failed.
  const Library* opened() {
    std::lock_guard lock(mutex_);
    return library_ && library_->ok() ? (*library_)->get() : nullptr;
  }
  void forget() {
    std::lock_guard lock(mutex_);
    library_.reset();
  }

 private:
  std::mutex mutex_;
  std::optional<Result<std::unique_ptr<Library>>> library_;  // empty before the first get()
};

// Holds one T per device, made by the first at() and kept.
template <class T>
class OfDevices {
 public:
  // make(device) returns a Result of a unique pointer.
  template <class Make>
  Result<T*> at(int ordinal, const Make& make) {
    TENON_ASSIGN(const Device* device, cuda::device(ordinal));
    std::lock_guard lock(mutex_);
    std::unique_ptr<T>& place = all_[ordinal];
    if (!place) {
      const Relaxed relaxed(device->driver());
      TENON_ASSIGN(place, make(*device));
    }
    return place.get();
  }
  void forget() {
    std::lock_guard lock(mutex_);
    all_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<int, std::unique_ptr<T>> all_;
};

}  // namespace tenon::cuda
