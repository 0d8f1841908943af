// elf_loader: turns a relocatable x86-64 ELF object in memory into running code in the pool. Supports only
// what our emitter needs: one block per object, calls of a fixed table of C functions, no global data, no
// constructors, no unwind tables. Checks every offset, so a damaged object is a Status. Tested by
// tests/unit/jit/llvm/compiler_test.cc.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tenon::jit {

struct Linked {
  std::shared_ptr<void> memory;
  size_t bytes = 0;
  struct Symbol {
    void* address;
    size_t size;
  };
  std::map<std::string, Symbol, std::less<>> functions;  // the global functions that the object defines
};

// The C function that code may call by this name: memcpy, fmaf, ..., those of host_call.h. Null: there is
// none.
void* runtime_symbol(std::string_view name);

Result<Linked> link(std::string_view object);

}  // namespace tenon::jit
