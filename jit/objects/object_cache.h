// ObjectCache: compiled kernels on disk, between those who compile and the Store. The key is a hash of all that decides the
// machine code: the emitted text (which says the instruction set) and the code generator with its settings. Hashing the
// kernel and a version of the emitter would save the emission, a small part of a compile, but somebody
// would have to know everything the emitter reads and remember to count the version up; the text cannot be forgotten.
// Every event is a line of the topic "cache". Any thread. Tested by tests/unit/jit/object_cache_test.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/base/store.h"

namespace tenon::jit {

struct ObjectRequest {
  Hash128 key;              // object_key()
  std::string_view text;    // the kernel's own: must be equal for a hit
  std::string_view name;    // for people
  std::string_view target;  // "avx2", "sm_90": for people
  std::string_view needs;   // instruction sets of the host, as for cpu_lacks()
};

Hash128 object_key(std::string_view emitted, std::string_view producer);

class ObjectCache {
 public:
  explicit ObjectCache(Store& store) : store_(store) {}
  // The one of the process, or what a test has put in its place (nullptr: the former again).
  static ObjectCache& get();
  static void replace(ObjectCache* cache);

  bool on() const { return store_.options().mode != StoreMode::off; }
  // Whether there was an object and `use` could do with it; an object it cannot use goes.
  bool find(const ObjectRequest& request, const std::function<Status(const std::string& object)>& use);
  // An object that is none says why.
  void keep(const ObjectRequest& request, Result<std::string> object, std::string_view producer);

 private:
  void tell(const char* event, const ObjectRequest& request, int64_t bytes, const std::string& why) const;
  Store& store_;
};

}  // namespace tenon::jit
