// Hash: XXH3 of bytes, 64 or 128 bits. The hash is the same on all machines, in all processes and versions,
// so it may name files. Hashes may collide: code that relies on equality compares the hashed bytes as well.
// Tested by tests/unit/base/base_test.cc.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tenon {

struct Hash128 {
  uint64_t low = 0, high = 0;
  std::string hex() const;  // 32 digits
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0);
Hash128 hash128(std::string_view bytes);

// Hashes many pieces into one. A text is hashed with its length, so "ab","c" differs from "a","bc".
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& number(uint64_t value);  // the same for every byte order
  Hasher& text(std::string_view bytes);
  Hasher& hash(const Hash128& value) { return number(value.low).number(value.high); }
  Hash128 finish() const;
  uint64_t finish64() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenon

template <>
struct std::hash<tenon::Hash128> {
  size_t operator()(const tenon::Hash128& h) const noexcept { return h.low; }
};
