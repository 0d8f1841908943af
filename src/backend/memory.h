// Memory of a run: the offsets of intermediates (planned once per plan), and the arenas that hold them (kept
// between runs). Tested by tests/unit/runtime/memory_test.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/align.h"

namespace tenon {

// One intermediate: alive from the step that writes it to the last step that reads it, both inclusive.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
  int share = -1;  // in place: shares the buffer of this other one, which ends where this one starts
  int64_t offset = 0;
  int region = -1;  // the region that holds it; -1: the workspace
};

// Values of at most so many bytes stay in the workspace, and keep their memory until steps that run together end.
inline constexpr int64_t kSmallValue = 1024;

// Memory outside the workspace that intermediates may use from a step on and before another one.
struct Region {
  int64_t bytes = 0;
  int from = 0;
  int until = std::numeric_limits<int>::max();
  int64_t least = kSmallValue + 1;  // bytes of an intermediate; smaller ones lie elsewhere
};

// Sets the offsets, multiples of kAlign, and the regions, such that values with overlapping lifetimes do not
// overlap. Returns the size of the workspace. First fit in order of decreasing size; a value goes to the first region that
// has room.
int64_t assign_offsets(std::vector<Lifetime>& values, const std::vector<Region>& regions = {});

// The lowest offset, a multiple of kAlign, at which no value with an offset has any of `bytes` of the workspace from step `first` to step `last`.
int64_t free_offset(const std::vector<Lifetime>& values, int64_t bytes, int first, int last);

// The source of blocks: the host's functions, or Tenon's own if `alloc` is null. alloc may return null.
struct Allocator {
  void* (*alloc)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*free)(void* user, void* block, size_t bytes) = nullptr;
  void* user = nullptr;
  bool operator==(const Allocator&) const = default;
};

// A block that is kept and rarely grown. With `huge`, a large block is advised to huge pages. On a virtual
// machine that returns free memory to its host, a huge page costs milliseconds, so do not use it for memory
// that is filled once.
class Arena {
 public:
  explicit Arena(int64_t bytes, const Allocator& allocator = {}, bool huge = true);  // throws std::bad_alloc
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  char* data() const { return data_; }
  int64_t size() const { return size_; }
  // Returns the memory behind the first bytes to the system; it is there again when it is written. No effect on a host's block.
  void trim(int64_t bytes);

 private:
  char* data_ = nullptr;
  int64_t size_ = 0;
  Allocator allocator_;
};

// The arenas not in use: as many as there were runs at once. Programs share a pool, so programs that run one after the other use one
// arena. Any thread; takes no lock while few threads run.
class ArenaPool {
 public:
  explicit ArenaPool(const Allocator& allocator = {}) : allocator_(allocator) {}
  ~ArenaPool();
  // The pool of all programs with this allocator; it ends with the last of them.
  static std::shared_ptr<ArenaPool> shared(const Allocator& allocator);
  std::unique_ptr<Arena> take(int64_t bytes);  // throws std::bad_alloc
  void give(std::unique_ptr<Arena> arena);
  void release();             // frees the arenas
  static void release_all();  // of all shared pools

 private:
  std::unique_ptr<Arena> take_spare(int64_t bytes);

  const Allocator allocator_;
  std::array<std::atomic<Arena*>, 8> spare_ = {};
  std::mutex mutex_;  // guards more_
  std::vector<std::unique_ptr<Arena>> more_;
  std::atomic<size_t> more_count_{0};
};

}  // namespace tenon
