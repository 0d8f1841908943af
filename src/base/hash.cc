// See hash.h. Tested by tests/kernel_test.cc.
#include "src/base/hash.h"

#include <xxhash.h>

namespace tenon {

uint64_t hash_bytes(std::string_view bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

}  // namespace tenon
