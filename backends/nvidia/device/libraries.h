// NVIDIA's libraries for heavy operations: where they are looked for and of which version they are, by those who call them and by the
// report that says whether they are there; the one of the process, and what it has on each device. Any thread.
// Tested by tests/unit/backends/cuda_driver_test.cc, tests/unit/backends/cublaslt_library_test.cc and tests/unit/backends/cudnn_library_test.cc.
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
// What `symbol` of the library gives. environment: it has no such symbol, or is older than `oldest`.
Result<size_t> version_of(const SharedLibrary& library, const std::string& what, const char* symbol,
                          size_t oldest = 0);

// Opened when first asked for, and not tried again where it is not there.
template <class Library>
class OpenOnce {
 public:
  Result<const Library*> get(LibrarySearch (*search)()) {
    std::lock_guard lock(mutex_);
    if (!library_) library_.emplace(Library::open(search()));
    if (!library_->ok()) return library_->status();
    return (*library_)->get();
  }
  // Null where nobody asked for it yet, or it is not there.
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
  std::optional<Result<std::unique_ptr<Library>>> library_;  // nothing: nobody asked
};

// One of each device, made when first asked for and kept.
template <class T>
class OfDevices {
 public:
  // make(device) gives a Result of a unique pointer.
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
