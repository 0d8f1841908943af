// code_names: tells perf and gdb the names of kernels, if TENON_JIT_PROFILE says so. Any thread. Tested by tests/cli_test.py.
#pragma once

#include <memory>
#include <string>

#include "jit/objects/elf_loader.h"

namespace tenon::jit {

// perf: appends a line to the file that `perf report` reads. gdb: registers a symbol through gdb's JIT interface. Returns the memory of the
// code, or an owner of it that also takes the symbol back.
std::shared_ptr<void> tell_name(const std::string& kernel, const Linked::Symbol& symbol,
                                std::shared_ptr<void> memory);

}  // namespace tenon::jit
