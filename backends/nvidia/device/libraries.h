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
#include "src/base/threads/immortal.h"

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

// A library that is opened at run time: Library derives from OpenedLibrary<Library> and has open() and search().
template <class Library>
class OpenedLibrary {
 public:
  // The library of the process, opened by the first call. environment, with what was tried: there is no library, it is too old, or it
  // lacks a function; then later calls return the same error and do not try again.
  static Result<const Library*> get() {
    Once& once = immortal<Once>();
    std::lock_guard lock(once.mutex);
    if (!once.library) once.library.emplace(Library::open(Library::search()));
    if (!once.library->ok()) return once.library->status();
    return (*once.library)->get();
  }
  // Null: get() was not called yet, or it failed.
  static const Library* opened() {
    Once& once = immortal<Once>();
    std::lock_guard lock(once.mutex);
    return once.library && once.library->ok() ? (*once.library)->get() : nullptr;
  }
  static void forget() {
    Once& once = immortal<Once>();
    std::lock_guard lock(once.mutex);
    once.library.reset();
  }
  OpenedLibrary(const OpenedLibrary&) = delete;
  OpenedLibrary& operator=(const OpenedLibrary&) = delete;

  const std::string& path() const { return file_.path(); }
  size_t version() const { return version_; }  // 91901: 9.19.1, 130002: 13.0.2

 protected:
  OpenedLibrary() = default;
  // Checks the version first: for an old library it makes a better message than a missing function.
  Status open_file(const LibrarySearch& search, const char* version, size_t oldest) {
    TENON_ASSIGN(file_, SharedLibrary::open(search));
    TENON_ASSIGN(version_, version_of(file_, search.what, version, oldest));
    return {};
  }

  SharedLibrary file_;
  size_t version_ = 0;

 private:
  struct Once {
    std::mutex mutex;
    std::optional<Result<std::unique_ptr<Library>>> library;  // empty before the first get()
  };
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
