// See hash.h. Tested by tests/unit/base/base_test.cc.
#include "src/base/hash.h"

#define XXH_INLINE_ALL  // our library exports no symbol of xxhash, and the state needs no allocation
#include <xxhash.h>

#include <new>

namespace tenon {
namespace {

Hash128 from(XXH128_hash_t h) { return {h.low64, h.high64}; }

}  // namespace

struct alignas(64) Hasher::State {
  XXH3_state_t xxh;
};

std::string Hash128::hex() const {
  std::string out;
  for (uint64_t word : {high, low})
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(word >> shift) & 15];
  return out;
}

uint64_t hash_bytes(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 hash128(std::string_view bytes) { return from(XXH3_128bits(bytes.data(), bytes.size())); }

Hasher::Hasher() : state_(new State) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;

Hasher& Hasher::number(uint64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(value >> (8 * i));
  XXH3_128bits_update(&state_->xxh, bytes, sizeof(bytes));
  return *this;
}

Hasher& Hasher::text(std::string_view bytes) {
  number(bytes.size());
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Hash128 Hasher::finish() const { return from(XXH3_128bits_digest(&state_->xxh)); }
uint64_t Hasher::finish64() const { return finish().low; }

}  // namespace tenon
