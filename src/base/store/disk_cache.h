// DiskCache: what was compiled, between the compilers and the Store. A key is a hash of everything that decides
// the compiled bytes. Logs every event as a line of the topic "cache". Any thread. Tested by
// tests/unit/jit/objects/kernels_on_disk_test.cc and tests/unit/runtime/kept_graph_test.cc.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "src/base/store/store.h"

namespace tenon {

struct DiskRequest {
  Hash128 key;              // disk_key()
  std::string_view text;    // the source; must be equal for a hit
  std::string_view name;    // for logs
  std::string_view target;  // "avx2", "sm_90", "graph"; for logs
  std::string_view needs;   // instruction sets that the entry needs, as for cpu_lacks()
};

Hash128 disk_key(std::initializer_list<std::string_view> parts);

class DiskCache {
 public:
  explicit DiskCache(Store& store) : store_(store) {}
  // The cache of the process, or the cache that a test has set with replace(). nullptr restores the cache of
  // the process.
  static DiskCache& get();
  static void replace(DiskCache* cache);

  bool on() const { return store_.options().mode != StoreMode::off; }
  // Loads the entry and calls `use` on its object. Returns whether there was an entry and `use` succeeded.
  // Removes an entry that `use` refuses.
  bool find(const DiskRequest& request, const std::function<Status(const std::string& object)>& use);
  // Removes an entry of which find() returned true, because it proved useless later.
  void refuse(const DiskRequest& request, const std::string& why);
  // Stores the object. If `object` is an error, logs the reason. producer: the compiler, for display.
  void keep(const DiskRequest& request, Result<std::string> object, std::string_view producer);

 private:
  void tell(const char* event, const DiskRequest& request, int64_t bytes, const std::string& why) const;
  Store& store_;
};

}  // namespace tenon
