// The steps inside Compiler, for tests and benchmarks: LLVM text to an ELF object. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tenon::jit {

// Machine code of every function in the text, as a relocatable x86-64 object. Text that does not parse or that LLVM
// gives up on is internal, with LLVM's words.
Result<std::string> compile_object(std::string_view llvm_text);

}  // namespace tenon::jit
