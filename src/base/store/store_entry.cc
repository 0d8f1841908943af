// See store_entry.h.
#include "src/base/store/store_entry.h"

#include <cstddef>
#include <cstring>
#include <utility>

namespace tenon {
namespace {

constexpr char kMagic[8] = {'T', 'E', 'N', 'O', 'N', 'O', 'B', 'J'};
constexpr int kParts = 5;

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t parts;
  uint64_t key_low, key_high;
  int64_t created;
  uint64_t sizes[kParts];
  uint64_t body_low, body_high;  // checksum of everything after the header
  uint64_t checksum;             // checksum of the header before this field
};
static_assert(sizeof(Header) == 104);

uint64_t checksum_of(const Header& header) {
  return hash_bytes({reinterpret_cast<const char*>(&header), offsetof(Header, checksum)});
}

}  // namespace

std::string encode(const StoreEntry& entry) {
  const std::string* parts[kParts] = {&entry.needs, &entry.name, &entry.producer, &entry.text, &entry.object};
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.format = kStoreFormat;
  header.parts = kParts;
  header.key_low = entry.key.low;
  header.key_high = entry.key.high;
  header.created = entry.created;
  std::string bytes(sizeof header, '\0');
  for (int i = 0; i < kParts; ++i) {
    header.sizes[i] = parts[i]->size();
    bytes += *parts[i];
  }
  const Hash128 body = hash128(std::string_view(bytes).substr(sizeof header));
  header.body_low = body.low;
  header.body_high = body.high;
  header.checksum = checksum_of(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<StoreEntry> decode(std::string_view bytes) {
  if (bytes.empty()) return invalid("the file is empty");
  if (bytes.size() < sizeof(Header)) return invalid("the file is shorter than its header");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return invalid("the file is not one of Tenon's");
  if (header.format != kStoreFormat)
    return invalid("the file has format " + std::to_string(header.format) + ", this library reads " +
                   std::to_string(kStoreFormat));
  if (header.checksum != checksum_of(header) || header.parts != kParts)
    return invalid("the header is damaged");
  std::string_view body = bytes.substr(sizeof header);
  uint64_t left = body.size();
  for (uint64_t size : header.sizes) {
    if (size > left) return invalid("the file is cut short");
    left -= size;
  }
  if (left != 0) return invalid("the file is longer than its header says");
  if (hash128(body) != Hash128{header.body_low, header.body_high}) return invalid("the content is damaged");
  StoreEntry entry;
  entry.key = {header.key_low, header.key_high};
  entry.created = header.created;
  std::string* parts[kParts] = {&entry.needs, &entry.name, &entry.producer, &entry.text, &entry.object};
  for (int i = 0; i < kParts; ++i) {
    *parts[i] = body.substr(0, header.sizes[i]);
    body.remove_prefix(header.sizes[i]);
  }
  return entry;
}

}  // namespace tenon
