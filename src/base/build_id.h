// build_id: the linker's hash of the file that this code was loaded from. Tested by tests/unit/base/base_test.cc.
#pragma once

#include <string>

namespace tenon {

// The GNU build id, as hexadecimal digits, of the shared library or program that contains this function; empty
// if it has none. Any change of the code changes it.
std::string build_id();

}  // namespace tenon
