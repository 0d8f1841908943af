// The function of tenon.h for the kernel cache on disk. Tested by tests/abi/capi*.c.
#include "src/api/guard.h"
#include "src/base/store/store.h"

extern "C" {

tenon_status tenon_cache_get_stats(tenon_cache_stats* out) {
  return tenon::api::guarded([&]() -> tenon::Status {
    if (!out) return tenon::invalid("tenon_cache_get_stats: out is NULL");
    const tenon::Store& store = tenon::Store::process();
    const tenon::StoreOptions& options = store.options();
    const tenon::Store::Stats s = store.stats();
    const bool off = options.mode == tenon::StoreMode::off;
    tenon_cache_stats full = {};
    full.directory = off ? "" : options.directory.c_str();
    full.off = off ? options.why.c_str() : "";
    full.hits = s.hits, full.misses = s.misses, full.refused = s.refused, full.damaged = s.damaged;
    full.writes = s.stores, full.failed_writes = s.failed_stores, full.removed = s.removed;
    full.bytes_read = s.bytes_read, full.bytes_written = s.bytes_written;
    return tenon::api::write_struct(full, "tenon_cache_stats", out);
  });
}
}
