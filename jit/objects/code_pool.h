// CodePool: memory for machine code, whole pages out of a few large reservations. A page is writable while
// code is copied into it and executable afterwards, never both. The system counts neighbouring pages of equal
// protection as one mapping, so thousands of kernels cost a handful of mappings. The memory is private: a
// forked child keeps its own copy, whatever the parent frees or compiles later (a shared double mapping could
// not do this). Tested by tests/unit/jit/llvm/compiler_test.cc and tests/unit/jit/llvm/noexec_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "src/base/status.h"

namespace tenon::jit {

class CodePool {
 public:
  static CodePool& get();
  // Takes pages for `bytes`, calls `write` to fill them at their final address, and makes them executable.
  // The pages return to the pool with the last reference.
  Result<std::shared_ptr<void>> install(size_t bytes, const std::function<Status(char* at)>& write);
  int64_t bytes_in_use() const;

 private:
  struct Impl;
  CodePool();
  Impl* impl_;  // never freed: code may be released after static destructors have run
};

}  // namespace tenon::jit
