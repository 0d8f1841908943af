// See object_cache.h.
#include "jit/objects/object_cache.h"

#include <atomic>
#include <ctime>

#include "src/base/log.h"

namespace tenon::jit {
namespace {

std::atomic<ObjectCache*> replaced = nullptr;

}  // namespace

Hash128 object_key(std::string_view kernel, std::string_view emitted, std::string_view producer) {
  return Hasher().text("tenon object").text(producer).text(emitted).text(kernel).finish();
}

ObjectCache& ObjectCache::get() {
  if (ObjectCache* other = replaced) return *other;
  static ObjectCache& cache = *new ObjectCache(Store::process());
  return cache;
}

void ObjectCache::replace(ObjectCache* cache) { replaced = cache; }

void ObjectCache::tell(const char* event, const ObjectRequest& request, int64_t bytes,
                       const std::string& why) const {
  if (!log_wanted("cache")) return;
  log_row("cache", "event,kernel,isa,key,bytes,why",
          {event, std::string(request.name), std::string(request.target), request.key.hex(),
           std::to_string(bytes), why});
}

bool ObjectCache::find(const ObjectRequest& request,
                       const std::function<Status(const std::string& object)>& use) {
  if (!on()) {
    tell("off", request, 0, store_.options().why);
    return false;
  }
  Store::Found found = store_.load(request.key, request.text);
  if (found.kind == Store::Found::absent) {
    const Status usable = store_.check();
    tell("miss", request, 0,
         usable.ok() ? "no process has stored this code for this instruction set and code generator"
                     : "there is no directory to read: " + usable.message());
    return false;
  }
  if (found.kind == Store::Found::refused) {
    tell("refused", request, 0, found.why);
    return false;
  }
  const Status used = use(found.entry.object);
  if (used.ok()) {
    tell("hit", request, found.bytes, "read from disk: no code was generated");
    return true;
  }
  store_.reject(request.key);
  tell("refused", request, 0, used.message());
  return false;
}

void ObjectCache::keep(const ObjectRequest& request, Result<std::string> object, std::string_view producer) {
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

}  // namespace tenon::jit
