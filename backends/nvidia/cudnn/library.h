// Library: cuDNN, opened at run time and never linked. Its functions are members with the library's names; failure() states which
// call failed, with the library's error text. Descriptor: an object of the library. Opening reads some hundred megabytes if the file
// is not in memory yet, so it happens with the first bid for a node that cuDNN runs. Any thread.
// Tested by tests/unit/backends/cudnn_library_test.cc.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/nvidia/cudnn/api.h"
#include "backends/nvidia/device/libraries.h"

namespace tenon::cudnn {

class Library : public cuda::OpenedLibrary<Library> {
 public:
  static LibrarySearch search() { return cuda::cudnn_search(); }
  static Result<std::unique_ptr<Library>> open(const LibrarySearch& search);
  // unsupported if that is the library's answer, otherwise environment: "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (1001): ", then
  // the last error text of this thread.
  [[gnu::cold, gnu::noinline]] Status failure(const std::string& call, int status) const;

#define X(name, ...) LibraryFunction<Library, int(__VA_ARGS__)> name;
  TENON_CUDNN_FUNCTIONS(X)
#undef X

 private:
  Library() = default;

  const char* (*status_text_)(int status) = nullptr;
  void (*last_text_)(char* text, size_t bytes) = nullptr;
};

// A descriptor of the library; its destructor destroys it. `what` names the described object in error messages: "cudnnBackendFinalize
// of its tensor".
class Descriptor {
 public:
  static Result<Descriptor> make(const Library& library, int type, const char* what);
  Descriptor(Descriptor&& other) noexcept
      : library_(other.library_), what_(other.what_), raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (raw_) library_->cudnnBackendDestroyDescriptor.status_of(raw_);
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
                 library_->cudnnBackendSetAttribute.status_of(raw_, attribute, type, count, values));
  }
  Status finalize() { return check("cudnnBackendFinalize", library_->cudnnBackendFinalize.status_of(raw_)); }
  // Returns the number of values, which may exceed `most`.
  Result<int64_t> get(int attribute, int type, int64_t most, void* values) const;
  // The status of the call that just returned `status`.
  Status check(const char* call, int status) const {
    return status == kDnnSuccess ? Status() : library_->failure(std::string(call) + " of " + what_, status);
  }

 private:
  Descriptor(const Library& library, const char* what) : library_(&library), what_(what) {}

  const Library* library_;
  const char* what_;
  DnnDescriptor raw_ = nullptr;
};

// Forgets the library and all handles (handles.h); nothing may use them any more. For tests.
void forget_library();

}  // namespace tenon::cudnn
