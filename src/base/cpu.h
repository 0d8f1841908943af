// Cpu: the instruction sets of the machine, by the names that code on disk states as its needs ("avx2,bmi2"). A set
// counts only if the operating system saves its registers too. Tested by tests/unit/base/store_test.cc.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// The first name in the comma list that this machine lacks or that nobody knows; empty: it has them all.
std::string cpu_lacks(std::string_view names);

}  // namespace tenon
