// See disk_cache.h.
#include "src/base/store/disk_cache.h"

#include <atomic>
#include <ctime>

#include "src/base/log.h"

namespace tenon {
namespace {

std::atomic<DiskCache*> replaced = nullptr;

}  // namespace

Hash128 disk_key(std::initializer_list<std::string_view> parts) {
  Hasher hasher;
  for (std::string_view part : parts) hasher.text(part);
  return hasher.finish();
}

DiskCache& DiskCache::get() {
  if (DiskCache* other = replaced) return *other;
  static DiskCache& cache = *new DiskCache(Store::process());
  return cache;
}

void DiskCache::replace(DiskCache* cache) { replaced = cache; }

void DiskCache::tell(const char* event, const DiskRequest& request, int64_t bytes,
                     const std::string& why) const {
  if (!log_wanted("cache")) return;
  log_row("cache", "event,kernel,isa,key,bytes,why",
          {event, std::string(request.name), std::string(request.target), request.key.hex(),
           std::to_string(bytes), why});
}

bool DiskCache::find(const DiskRequest& request,
                     const std::function<Status(const std::string& object)>& use) {
  if (!on()) {
    tell("off", request, 0, store_.options().why);
    return false;
  }
  Store::Found found = store_.load(request.key, request.text);
  if (found.kind == Store::Found::absent) {
    const Status usable = store_.check();
    tell("miss", request, 0,
         usable.ok() ? "no process has stored this for this machine and version"
                     : "there is no directory to read: " + usable.message());
    return false;
  }
  if (found.kind == Store::Found::refused) {
    tell("refused", request, 0, found.why);
    return false;
  }
  const Status used = use(found.entry.object);
  if (used.ok()) {
    tell("hit", request, found.bytes, "read from disk: nothing was compiled");
    return true;
  }
  refuse(request, used.message());
  return false;
}

void DiskCache::refuse(const DiskRequest& request, const std::string& why) {
  store_.reject(request.key);
  tell("refused", request, 0, why);
}

void DiskCache::keep(const DiskRequest& request, Result<std::string> object, std::string_view producer) {
  if (store_.options().mode != StoreMode::on) return;
  if (!object.ok()) return tell("unstored", request, 0, object.status().message());
  StoreEntry entry;
  entry.key = request.key;
  entry.needs = request.needs;
  entry.name = request.name;
  entry.producer = producer;
  entry.text = request.text;
  entry.object = std::move(*object);
  entry.created = std::time(nullptr);
  const Result<int64_t> bytes = store_.save(entry);
  if (bytes.ok())
    tell("store", request, *bytes, "compiled here, and kept for later processes");
  else
    tell("unstored", request, 0, bytes.status().message());
}

}  // namespace tenon
