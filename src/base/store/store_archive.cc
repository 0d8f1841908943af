// export_store and import_store. An archive is a magic word followed by entries, each after its size as eight
// bytes. Each entry has its own checksums, so an archive that is cut short still yields the entries before
// the cut.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "src/base/cpu.h"
#include "src/base/store/store.h"

namespace tenon {
namespace {

constexpr std::string_view kArchiveMagic = "TENONCA1";

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

bool put(std::FILE* file, std::string_view bytes) {
  return std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
}

std::string label(const StoreEntry& entry) { return entry.key.hex() + " " + entry.name; }

}  // namespace

Result<int64_t> export_store(Store& from, const std::string& path, const Skipped& skipped) {
  TENON_ASSIGN(const std::vector<Store::Item> items, from.list());
  const std::string aside = path + ".tmp-" + std::to_string(getpid());
  File file(std::fopen(aside.c_str(), "wbx"), &std::fclose);
  if (!file) return system_error(aside);
  int64_t count = 0;
  bool good = put(file.get(), kArchiveMagic);
  for (const Store::Item& item : items) {
    const Result<StoreEntry> entry = from.read(item.file);
    if (!entry.ok()) {
      skipped(item.file, entry.status().message());
      continue;
    }
    const std::string bytes = encode(*entry);
    const uint64_t size = bytes.size();
    good = good && put(file.get(), {reinterpret_cast<const char*>(&size), sizeof size}) &&
           put(file.get(), bytes);
    ++count;
  }
  good = std::fclose(file.release()) == 0 && good;
  if (!good || std::rename(aside.c_str(), path.c_str()) != 0) {
    const Status status = system_error(path);
    std::remove(aside.c_str());
    return status;
  }
  return count;
}

Result<int64_t> import_store(Store& to, const std::string& path, const Skipped& skipped) {
  File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return system_error(path);
  char magic[8];
  if (std::fread(magic, 1, sizeof magic, file.get()) != sizeof magic ||
      std::string_view(magic, 8) != kArchiveMagic)
    return invalid(path + " is not an archive of kernels");
  int64_t count = 0;
  std::string bytes;
  uint64_t size = 0;
  for (int64_t at = 0;; ++at) {
    const std::string nth = "entry " + std::to_string(at);
    const size_t got = std::fread(&size, 1, sizeof size, file.get());
    if (got == 0) break;
    if (got != sizeof size || size > static_cast<uint64_t>(kMaxEntryBytes)) {
      skipped(nth, "the archive is damaged from here on");
      break;
    }
    bytes.resize(size);
    if (std::fread(bytes.data(), 1, size, file.get()) != size) {
      skipped(nth, "the archive ends in the middle of it");
      break;
    }
    const Result<StoreEntry> entry = decode(bytes);
    if (!entry.ok()) {
      skipped(nth, entry.status().message());
      continue;
    }
    if (const std::string lack = cpu_lacks(entry->needs); !lack.empty()) {
      skipped(label(*entry), "it needs " + lack + ", which this machine lacks");
      continue;
    }
    TENON_TRY(to.save(*entry).status());
    ++count;
  }
  return count;
}

}  // namespace tenon
