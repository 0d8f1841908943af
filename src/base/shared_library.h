// SharedLibrary: a library that may be there at run time. It is the file, or in the folder, that an environment variable
// names. Where none does it is looked for in this order: a copy that the process has already loaded, the `nvidia` folders of
// the Python packages that loaded code comes from, the loader's own search, CUDA_HOME. Once opened it stays. Any thread. Tested by tests/unit/base/shared_library_test.cc.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"

namespace tenon {

struct LibrarySearch {
  std::string what;                        // "NVRTC", for sentences
  std::vector<std::string> sonames;        // the best first
  std::string variable;                    // of the environment: a file, a folder, or "off"
  std::vector<std::string> wheel_folders;  // below site-packages
  std::string beside;  // begin of the name of a file in the same folder, opened with it; may be empty
};

class SharedLibrary {
 public:
  // environment, with every place that was tried.
  static Result<SharedLibrary> open(const LibrarySearch& search);

  const std::string& path() const { return path_; }
  // environment, naming the file, where it lacks the symbol.
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

}  // namespace tenon
