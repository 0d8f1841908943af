// Store: a directory of kernels that many processes share. One file an entry, written aside and renamed, so a reader
// sees a whole entry or none; nothing is locked and nothing is synced, as a torn file is found by its checksums. Whatever
// is wrong with the directory or a file is a sentence, never more than a miss. Its size is kept below a limit: the
// entries unused for longest go. Any thread, any process; holds across fork. docs/cache.md is the user's page.
// Tested by tests/unit/base/store_test.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/store_entry.h"

namespace tenon {

enum class StoreMode { off, read, on };

// What TENON_CACHE, TENON_CACHE_DIR and TENON_CACHE_BYTES ask for. off: `why` says the reason.
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
  // The one of this process, from its environment at the first call; never closed.
  static Store& process();

  // hit: the entry. absent: there is none, or no directory. refused: `why`; a file that no load would ever take is removed.
  struct Found {
    enum Kind { hit, absent, refused } kind = absent;
    StoreEntry entry = {};
    std::string why = {};
    int64_t bytes = 0;
  };
  Found load(const Hash128& key, std::string_view text);
  // For whoever finds later that a hit is of no use after all: it counts as refused, and the file goes.
  void reject(const Hash128& key);
  // The bytes written. Removes old entries when enough has been written since that was last done.
  Result<int64_t> save(const StoreEntry& entry);

  // Whether there is a directory to use; otherwise why not (also: it does not exist yet).
  Status check();
  bool missing() const;  // the directory does not exist
  const StoreOptions& options() const { return options_; }

  // ---- for the command line ----
  struct Item {
    std::string file;
    int64_t bytes = 0;
    int64_t used = 0;  // seconds since 1970, to some minutes
  };
  Result<std::vector<Item>> list();  // the longest unused first
  Result<StoreEntry> read(const std::string& file);
  Status remove(const std::string& file);
  struct Pruned {
    int64_t removed = 0, removed_bytes = 0, kept = 0, kept_bytes = 0;
  };
  Result<Pruned> prune(int64_t limit);  // and what dead processes left behind

  // Of this process.
  struct Stats {
    // A refusal is a miss too; damaged are the refused that no load would ever take.
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

// Several entries in one file, for another machine. An entry that it could not use is left out and `skipped` told why.
using Skipped = std::function<void(const std::string& entry, const std::string& why)>;
Result<int64_t> export_store(Store& from, const std::string& path, const Skipped& skipped);
Result<int64_t> import_store(Store& to, const std::string& path, const Skipped& skipped);

}  // namespace tenon
