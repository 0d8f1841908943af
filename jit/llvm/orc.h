// orc: the code generation step of Compiler, for tests and benchmarks: LLVM text to an ELF object. Any
// thread.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tenon::jit {

// Machine code of every function in the text, as a relocatable x86-64 object. internal, with LLVM's message:
// the text does not parse, or LLVM fails.
Result<std::string> compile_object(std::string_view llvm_text);

}  // namespace tenon::jit
