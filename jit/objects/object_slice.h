// slice: of an object that holds several functions, each in a section of its own, the one function with the constants it
// uses, as an object again. Kernels are compiled several to a module but kept on disk one by one.
// Tested by tests/unit/jit/object_cache_test.cc.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tenon::jit {

// The object is one that code generation has just made, not one from outside; what is out of order is still a status.
Result<std::string> slice(std::string_view object, std::string_view function);

}  // namespace tenon::jit
