// StoreEntry: one kernel as bytes on disk. The format is a header of fixed size (magic, format, key, sizes,
// time, a checksum of the rest, a checksum of the header), followed by needs, name, producer, text and
// object. The format is for little-endian machines only, as is the code inside. decode() trusts nothing: it
// accepts only bytes that encode() made and that are undamaged, and every refusal says why. Tested by
// tests/unit/base/store_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/hash.h"
#include "src/base/status.h"

namespace tenon {

struct StoreEntry {
  Hash128 key;           // hash of everything that decides the object; names the file
  std::string needs;     // instruction sets, see src/base/cpu.h
  std::string name;      // for display
  std::string producer;  // for display: the code generator and its version
  std::string text;  // the compiled source; compared before the object is used, because hashes may collide
  std::string object;
  int64_t created = 0;  // seconds since 1970
};

inline constexpr uint32_t kStoreFormat = 1;
inline constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;

std::string encode(const StoreEntry& entry);
Result<StoreEntry> decode(std::string_view bytes);

}  // namespace tenon
