// Hash: XXH3 over bytes. Stable between processes and versions, so it may name files. A hash finds; whoever trusts it
// also compares what was hashed. Tested by tests/kernel_test.cc.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon {

uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0);

}  // namespace tenon
