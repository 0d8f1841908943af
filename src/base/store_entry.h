// StoreEntry: one kernel on disk as bytes. A header of fixed size (magic, format, key, sizes, time, checksum of what
// follows, checksum of itself), then needs, name, producer, text and object, one behind the other. Written for
// little-endian machines only, as the code inside is. decode() trusts nothing: whatever it takes was encoded by somebody
// and is undamaged, and every refusal says why. Tested by tests/unit/base/store_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/hash.h"
#include "src/base/status.h"

namespace tenon {

struct StoreEntry {
  Hash128 key;           // of whatever decides the object; names the file
  std::string needs;     // instruction sets (src/base/cpu.h)
  std::string name;      // for people
  std::string producer;  // for people: the code generator and its version
  std::string text;      // what was compiled: compared before the object is used, as a hash proves nothing
  std::string object;
  int64_t created = 0;  // seconds since 1970
};

inline constexpr uint32_t kStoreFormat = 1;
inline constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;

std::string encode(const StoreEntry& entry);
Result<StoreEntry> decode(std::string_view bytes);

}  // namespace tenon
