// SharedLibrary: a library that may be present at run time. An environment variable can name the file or its
// folder. Without that, the search order is: a copy that the process has already loaded, the `nvidia` folders
// of the Python packages that loaded code comes from, the loader's own search, CUDA_HOME. An opened library
// stays open. Any thread. Tested by tests/unit/base/shared_library_test.cc.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"

namespace tenon {

struct LibrarySearch {
  std::string what;                        // "NVRTC", for messages
  std::vector<std::string> sonames;        // in order of preference
  std::string variable;                    // environment variable: a file, a folder, or "off"
  std::vector<std::string> wheel_folders;  // paths below site-packages
  std::string beside;  // file name prefix in the same folder, opened along with it; may be empty
};

class SharedLibrary {
 public:
  // Fails with environment; the message lists every place that was tried.
  static Result<SharedLibrary> open(const LibrarySearch& search);

  const std::string& path() const { return path_; }
  // Fails with environment if the library lacks the symbol; the message names the file.
  template <class F>
  Status resolve(const char* symbol, F*& function) const {
    TENON_ASSIGN(void* address, find(symbol));
    function = reinterpret_cast<F*>(address);
    return {};
  }

 private:
  Result<void*> find(const char* symbol) const;

  void* handle_ = nullptr;
  std::string path_;
};

template <class Owner, class Signature>
class LibraryFunction;

// A function of an opened library that returns a status, 0 for success. owner->failure(name, status) makes an error of any other
// status; the owner outlives the function.
template <class Owner, class... A>
class LibraryFunction<Owner, int(A...)> {
 public:
  Status operator()(A... arguments) const {
    const int status = function_(arguments...);
    return status == 0 ? Status() : failure(status);
  }
  // Returns the library's status, for calls whose failure is an answer.
  int status_of(A... arguments) const { return function_(arguments...); }
  Status resolve(const SharedLibrary& library, const char* name, const Owner* owner) {
    name_ = name;
    owner_ = owner;
    return library.resolve(name, function_);
  }

 private:
  [[gnu::cold, gnu::noinline]] Status failure(int status) const { return owner_->failure(name_, status); }

  int (*function_)(A...) = nullptr;
  const char* name_ = nullptr;
  const Owner* owner_ = nullptr;
};

}  // namespace tenon
