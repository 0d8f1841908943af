// Library: cuDNN, opened at run time and never linked. Its functions are members named as the library names them; failure()
// says which call failed and how, in the library's words. Descriptor: one of its objects. Opening reads some hundred megabytes
// where they are not in memory yet, so it is done for the first convolution. Any thread.
// Tested by tests/unit/backends/cudnn_library_test.cc.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/nvidia/cudnn/api.h"
#include "backends/nvidia/device/device.h"
#include "src/base/shared_library.h"

namespace tenon::cudnn {

class Library {
 public:
  // One for the process. environment, saying what was tried: no library, one older than 9.0, one that lacks a function.
  static Result<const Library*> get();
  // Null where nobody asked for it yet, or it is not there.
  static const Library* opened();
  static Result<std::unique_ptr<Library>> open(const LibrarySearch& search);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& path() const { return file_.path(); }
  size_t version() const { return version_; }  // 91901: 9.19.1
  // unsupported where that is its answer, else environment: "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (1001): what the library
  // said last on this thread".
  [[gnu::cold, gnu::noinline]] Status failure(const std::string& call, int status) const;
  Status check(const char* call, int status) const {
    return status == kDnnSuccess ? Status() : failure(call, status);
  }

#define X(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  TENON_CUDNN_FUNCTIONS(X)
#undef X

 private:
  Library() = default;

  SharedLibrary file_;
  size_t version_ = 0;
  const char* (*status_text_)(int status) = nullptr;
  void (*last_text_)(char* text, size_t bytes) = nullptr;
};

// Goes back with its owner. Statuses say "cudnnBackendFinalize of its tensor": `what` is what it describes.
class Descriptor {
 public:
  static Result<Descriptor> make(const Library& library, int type, const char* what);
  Descriptor(Descriptor&& other) noexcept
      : library_(other.library_), what_(other.what_), raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (raw_) library_->cudnnBackendDestroyDescriptor(raw_);
  }
  DnnDescriptor raw() const { return raw_; }

  Status set(int attribute, int type, const std::vector<int64_t>& values) {
    return set_raw(attribute, type, static_cast<int64_t>(values.size()), values.data());
  }
  template <class T>
  Status set(int attribute, int type, const T& value) {
    return set_raw(attribute, type, 1, &value);
  }
  Status set(int attribute, const Descriptor& other) {
    return set(attribute, kDnnTypeDescriptor, other.raw_);
  }
  Status set_raw(int attribute, int type, int64_t count, const void* values) {
    return check("cudnnBackendSetAttribute",
                 library_->cudnnBackendSetAttribute(raw_, attribute, type, count, values));
  }
  Status finalize() { return check("cudnnBackendFinalize", library_->cudnnBackendFinalize(raw_)); }
  // The number there are, also where that is more than `most`.
  Result<int64_t> get(int attribute, int type, int64_t most, void* values) const;
  // Of the call that just failed.
  Status check(const char* call, int status) const {
    return status == kDnnSuccess ? Status() : library_->failure(std::string(call) + " of " + what_, status);
  }

 private:
  Descriptor(const Library& library, const char* what) : library_(&library), what_(what) {}

  const Library* library_;
  const char* what_;
  DnnDescriptor raw_ = nullptr;
};

// Forgets the library, and with it what handles.h keeps; nothing may use them any more. For tests.
void forget_library();

}  // namespace tenon::cudnn
