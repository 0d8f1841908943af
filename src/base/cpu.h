// Cpu: the instruction sets of the machine, by the names in which stored code states its needs ("avx2,bmi2").
// A set counts only if the operating system also saves its registers. Tested by
// tests/unit/base/store_test.cc.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// The first name in the comma list that this machine lacks or that is unknown; empty if the machine has them
// all.
std::string cpu_lacks(std::string_view names);
// All names that this machine has, as a comma list.
std::string cpu_has();

}  // namespace tenon
