// Library: cuBLASLt, opened at run time and never linked. Its functions are members with the library's names; each returns a Status
// that states which call failed, with the library's error text. Handle: the library on one device. Opening reads half a gigabyte if
// the file is not in memory yet, so it happens with the first matmul. Any thread.
// Tested by tests/unit/backends/cublaslt_library_test.cc.
#pragma once

#include <memory>
#include <string>

#include "backends/nvidia/cublaslt/api.h"
#include "backends/nvidia/device/libraries.h"

namespace tenon::cublaslt {

class Library : public cuda::OpenedLibrary<Library> {
 public:
  static LibrarySearch search() { return cuda::cublaslt_search(); }
  static Result<std::unique_ptr<Library>> open(const LibrarySearch& search);
  // unsupported if that is the library's answer, otherwise environment: "cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED (1): the
  // library was not initialized".
  Status failure(const char* call, int status) const;

#define X(name, ...) LibraryFunction<Library, int(__VA_ARGS__)> name;
  TENON_CUBLASLT_FUNCTIONS(X)
#undef X

 private:
  Library() = default;

  const char* (*status_name_)(int status) = nullptr;
  const char* (*status_text_)(int status) = nullptr;
};

class Handle {
 public:
  static Result<std::unique_ptr<Handle>> open(const Library& library, const cuda::Device& device);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const Library& library() const { return library_; }
  const cuda::Device& device() const { return device_; }
  LtHandle raw() const { return raw_; }

 private:
  Handle(const Library& library, const cuda::Device& device) : library_(library), device_(device) {}

  const Library& library_;
  const cuda::Device& device_;
  LtHandle raw_ = nullptr;
};

// The handle of a device, made by the first call and kept. environment, unsupported: why there is none.
Result<const Handle*> handle_of(int ordinal);
// Forgets the handles and the library; nothing may use them any more. For tests.
void forget_library();

}  // namespace tenon::cublaslt
