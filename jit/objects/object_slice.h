// object_slice: cuts one function, with the constants that it uses, out of an object that holds several
// functions, each in its own section. The result is an object again. Kernels are compiled several to a module
// but stored on disk one by one. Tested by tests/unit/jit/objects/kernels_on_disk_test.cc.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tenon::jit {

// Expects an object from our own code generation, not from outside. A malformed object is still a Status.
Result<std::string> slice(std::string_view object, std::string_view function);

}  // namespace tenon::jit
