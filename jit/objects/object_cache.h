// ObjectCache: compiled kernels on disk, between the compilers and the Store. The key is a hash of everything
// that decides the machine code: the emitted text (which names the instruction set), and the code generator
// with its settings. A hash of the kernel and of a version of the emitter would save the emission, a small
// part of a compile. But then someone would have to increase the version after every change of what the
// emitter reads; the text needs no such care. Logs every event as a line of the topic "cache". Any thread.
// Tested by tests/unit/jit/objects/object_cache_test.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/base/store/store.h"

namespace tenon::jit {

struct ObjectRequest {
  Hash128 key;              // object_key()
  std::string_view text;    // the kernel's text; must be equal for a hit
  std::string_view name;    // for logs
  std::string_view target;  // "avx2", "sm_90"; for logs
  std::string_view needs;   // instruction sets that the object needs, as for cpu_lacks()
};

// kernel: its text, which a hit compares; kernels of different texts may be emitted as the same code.
Hash128 object_key(std::string_view kernel, std::string_view emitted, std::string_view producer);

class ObjectCache {
 public:
  explicit ObjectCache(Store& store) : store_(store) {}
  // The cache of the process, or the cache that a test has set with replace(). nullptr restores the cache of
  // the process.
  static ObjectCache& get();
  static void replace(ObjectCache* cache);

  bool on() const { return store_.options().mode != StoreMode::off; }
  // Loads the object and calls `use`. Returns whether there was an object and `use` succeeded. Removes an
  // object that `use` refuses.
  bool find(const ObjectRequest& request, const std::function<Status(const std::string& object)>& use);
  // Stores the object. If `object` is an error, logs the reason.
  void keep(const ObjectRequest& request, Result<std::string> object, std::string_view producer);

 private:
  void tell(const char* event, const ObjectRequest& request, int64_t bytes, const std::string& why) const;
  Store& store_;
};

}  // namespace tenon::jit
