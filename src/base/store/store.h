// Store: a directory of kernels that many processes share. Each entry is one file, written under a temporary
// name and then renamed, so a reader sees a whole entry or none. Nothing is locked or synced: checksums
// detect a torn file. A problem with the directory or a file is reported as a sentence and never costs more
// than a miss. The size stays below a limit: the least recently used entries are removed. Any thread, any
// process; works across fork. The user's page is docs/cache.md. Tested by tests/unit/base/store_test.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/store/store_entry.h"

namespace tenon {

enum class StoreMode { off, read, on };

// The settings of TENON_CACHE, TENON_CACHE_DIR and TENON_CACHE_BYTES. If mode is off, `why` has the reason.
struct StoreOptions {
  StoreMode mode = StoreMode::on;
  std::string directory;
  int64_t limit = int64_t{1} << 30;
  std::string why;
  static StoreOptions from_env();
};

class Store {
 public:
  explicit Store(StoreOptions options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  // The store of this process, configured by the environment at the first call; never closed.
  static Store& process();

  // hit: `entry` is set. absent: there is no entry or no directory. refused: `why` says why; a file that no
  // machine could use is removed (mode on).
  struct Found {
    enum Kind { hit, absent, refused } kind = absent;
    StoreEntry entry = {};
    std::string why = {};
    int64_t bytes = 0;
  };
  Found load(const Hash128& key, std::string_view text);
  // For a caller that finds later that a hit is unusable: counts the hit as refused and removes the file.
  void reject(const Hash128& key);
  // Returns the bytes written. Removes old entries if enough bytes were written since the last removal.
  Result<int64_t> save(const StoreEntry& entry);

  // Whether the directory is usable; otherwise the reason (also if the directory does not exist yet).
  Status check();
  bool missing() const;  // the directory does not exist
  const StoreOptions& options() const { return options_; }

  // ---- for the command line ----
  struct Item {
    std::string file;
    int64_t bytes = 0;
    int64_t used = 0;  // seconds since 1970, accurate to some minutes
  };
  Result<std::vector<Item>> list();  // least recently used first
  Result<StoreEntry> read(const std::string& file);
  Status remove(const std::string& file);
  struct Pruned {
    int64_t removed = 0, removed_bytes = 0, kept = 0, kept_bytes = 0;
  };
  Result<Pruned> prune(int64_t limit);  // also removes what dead processes left behind

  // Counts of this process.
  struct Stats {
    // A refusal is also a miss; damaged counts the refusals of files that no machine could use.
    int64_t hits = 0, misses = 0, refused = 0, damaged = 0, stores = 0, failed_stores = 0;
    int64_t bytes_read = 0, bytes_written = 0, removed = 0;
  };
  Stats stats() const;

 private:
  Result<int> directory(bool create);
  Result<std::string> read_file(const std::string& file, bool touch);
  void prune_when_due(int dir, int64_t written);
  Result<Pruned> prune_in(int dir, int64_t limit);

  const StoreOptions options_;
  std::atomic<int> dir_ = -1;
  std::atomic<bool> read_only_ = false;
  struct Counters {
    std::atomic<int64_t> hits{0}, misses{0}, refused{0}, damaged{0}, stores{0}, failed_stores{0},
        bytes_read{0}, bytes_written{0}, removed{0};
  } count_;
};

std::string store_file_name(const Hash128& key);

// Several entries in one file, for another machine. An entry that is unusable is left out; `skipped` gets the
// reason.
using Skipped = std::function<void(const std::string& entry, const std::string& why)>;
Result<int64_t> export_store(Store& from, const std::string& path, const Skipped& skipped);
Result<int64_t> import_store(Store& to, const std::string& path, const Skipped& skipped);

}  // namespace tenon
