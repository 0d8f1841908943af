// See object_cache.h.
#include "jit/object_cache.h"

#include <atomic>
#include <ctime>

#include "jit/object_slice.h"
#include "src/base/log.h"

namespace tenon::jit {
namespace {

std::atomic<ObjectCache*> replaced = nullptr;

}  // namespace

Hash128 object_key(std::string_view llvm_text, std::string_view producer) {
  return Hasher().text("tenon object").text(producer).text(llvm_text).finish();
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
          {event, std::string(request.name), std::string(isa_name(request.isa)), request.key.hex(),
           std::to_string(bytes), why});
}

std::optional<Linked> ObjectCache::find(const ObjectRequest& request) {
  if (!on()) {
    tell("off", request, 0, store_.options().why);
    return std::nullopt;
  }
  Store::Found found = store_.load(request.key, request.text);
  if (found.kind == Store::Found::absent) {
    const Status usable = store_.check();
    tell("miss", request, 0,
         usable.ok() ? "no process has stored this code for this instruction set and code generator"
                     : "there is no directory to read: " + usable.message());
    return std::nullopt;
  }
  if (found.kind == Store::Found::refused) {
    tell("refused", request, 0, found.why);
    return std::nullopt;
  }
  Result<Linked> linked = link(found.entry.object);
  if (linked.ok() && linked->functions.size() == 1) {
    tell("hit", request, found.bytes, "read from disk: no code was generated");
    return std::move(*linked);
  }
  store_.reject(request.key);
  tell("refused", request, 0, linked.ok() ? "it holds no single function" : linked.status().message());
  return std::nullopt;
}

void ObjectCache::keep(const ObjectRequest& request, std::string_view object, std::string_view function,
                       std::string_view producer) {
  if (store_.options().mode != StoreMode::on) return;
  const Result<std::string> alone = slice(object, function);
  if (!alone.ok()) return tell("unstored", request, 0, alone.status().message());
  StoreEntry entry;
  entry.key = request.key;
  entry.needs = isa_needs(request.isa);
  entry.name = request.name;
  entry.producer = producer;
  entry.text = request.text;
  entry.object = *alone;
  entry.created = std::time(nullptr);
  const Result<int64_t> bytes = store_.save(entry);
  if (bytes.ok())
    tell("store", request, *bytes, "compiled here, and kept for later processes");
  else
    tell("unstored", request, 0, bytes.status().message());
}

}  // namespace tenon::jit
