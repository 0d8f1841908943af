// ObjectCache: compiled kernels on disk, between the Compiler and the Store. The key is a hash of all that decides the
// machine code: the LLVM text (which says the instruction set) and the code generator with its settings. Hashing the
// kernel and a version of the emitter would save the emission, a small part of a compile, but somebody
// would have to know everything the emitter reads and remember to count the version up; the text cannot be forgotten.
// Every event is a line of the topic "cache". Any thread. Tested by tests/object_cache_test.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jit/kernel.h"
#include "jit/link.h"
#include "src/base/store.h"

namespace tenon::jit {

struct ObjectRequest {
  Hash128 key;            // object_key()
  std::string_view text;  // the kernel's canonical text: must be equal for a hit
  std::string_view name;  // for people
  Isa isa = Isa::sse2;
};

Hash128 object_key(std::string_view llvm_text, std::string_view producer);

class ObjectCache {
 public:
  explicit ObjectCache(Store& store) : store_(store) {}
  // The one of the process, or what a test has put in its place (nullptr: the former again).
  static ObjectCache& get();
  static void replace(ObjectCache* cache);

  bool on() const { return store_.options().mode != StoreMode::off; }
  // Linked code with exactly one function, or nothing; never a failure.
  std::optional<Linked> find(const ObjectRequest& request);
  // Keeps the function of this name out of the object, if that is possible.
  void keep(const ObjectRequest& request, std::string_view object, std::string_view function,
            std::string_view producer);

 private:
  void tell(const char* event, const ObjectRequest& request, int64_t bytes, const std::string& why) const;
  Store& store_;
};

}  // namespace tenon::jit
