// See memory.h. Tested by tests/unit/runtime/memory_test.cc.
#include "src/backend/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <numeric>

#include "src/base/no_fork.h"

namespace tenon {

int64_t assign_offsets(std::vector<Lifetime>& values) {
  // Values that share a buffer are placed as one, alive over all their lifetimes.
  const size_t n = values.size();
  std::vector<int> root(n);
  std::vector<int> first(n), last(n);
  std::vector<int64_t> bytes(n);
  for (size_t i = 0; i < n; ++i) {
    root[i] = static_cast<int>(i);
    while (values[root[i]].share >= 0) root[i] = values[root[i]].share;
    first[i] = values[i].first, last[i] = values[i].last, bytes[i] = align_up(values[i].bytes);
  }
  for (size_t i = 0; i < n; ++i) {
    const int r = root[i];
    first[r] = std::min(first[r], values[i].first);
    last[r] = std::max(last[r], values[i].last);
    bytes[r] = std::max(bytes[r], align_up(values[i].bytes));
  }
  std::vector<int> order;
  for (size_t i = 0; i < n; ++i)
    if (root[i] == static_cast<int>(i) && bytes[i] > 0) order.push_back(static_cast<int>(i));
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::pair(-bytes[a], a) < std::pair(-bytes[b], b); });
  int64_t total = 0;
  std::vector<int> placed;
  for (int i : order) {
    std::vector<std::pair<int64_t, int64_t>> busy;  // extents of values alive at the same time
    for (int p : placed)
      if (first[p] <= last[i] && first[i] <= last[p])
        busy.push_back({values[p].offset, values[p].offset + bytes[p]});
    std::sort(busy.begin(), busy.end());
    int64_t at = 0;
    for (auto [begin, end] : busy) {
      if (at + bytes[i] <= begin) break;
      at = std::max(at, end);
    }
    values[i].offset = at;
    total = std::max(total, at + bytes[i]);
    placed.push_back(i);
  }
  for (size_t i = 0; i < n; ++i) values[i].offset = values[root[i]].offset;
  return total;
}

Arena::Arena(int64_t bytes, const Allocator& allocator, bool huge) : allocator_(allocator) {
  if (allocator_.alloc) {
    size_ = align_up(std::max<int64_t>(bytes, 1));
    data_ = static_cast<char*>(allocator_.alloc(allocator_.user, static_cast<size_t>(size_), kAlign));
    if (!data_) throw std::bad_alloc();
    return;
  }
  constexpr int64_t kHuge = int64_t{2} << 20;
  const int64_t alignment = huge && bytes >= kHuge ? kHuge : 4096;
  size_ = (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  data_ = static_cast<char*>(std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size_)));
  if (!data_) throw std::bad_alloc();
  // Fresh 4 KiB pages fill at 3 GB/s, huge pages at 20 GB/s.
  if (alignment == kHuge) madvise(data_, static_cast<size_t>(size_), MADV_HUGEPAGE);
}

Arena::~Arena() {
  if (allocator_.alloc)
    allocator_.free(allocator_.user, data_, static_cast<size_t>(size_));
  else
    std::free(data_);
}

ArenaPool::~ArenaPool() {
  for (auto& s : spare_) delete s.load();
}

std::unique_ptr<Arena> ArenaPool::take(int64_t bytes) {
  std::unique_ptr<Arena> arena;
  for (auto& s : spare_)
    if (s.load(std::memory_order_relaxed))
      if (arena.reset(s.exchange(nullptr, std::memory_order_acq_rel)); arena) break;
  if (!arena && more_count_.load(std::memory_order_relaxed) > 0) {
    const NoFork no_fork;
    std::lock_guard lock(mutex_);
    if (!more_.empty()) {
      arena = std::move(more_.back());
      more_.pop_back();
      more_count_.store(more_.size(), std::memory_order_relaxed);
    }
  }
  if (arena && arena->size() >= bytes) return arena;
  // Grow by a quarter, so that slowly growing sizes do not need fresh pages at every step.
  if (arena) bytes = std::max(bytes, arena->size() + arena->size() / 4);
  arena.reset();
  return std::make_unique<Arena>(bytes, allocator_);
}

void ArenaPool::give(std::unique_ptr<Arena> arena) {
  for (auto& s : spare_) {
    Arena* none = nullptr;
    if (!s.load(std::memory_order_relaxed) &&
        s.compare_exchange_strong(none, arena.get(), std::memory_order_acq_rel))
      return static_cast<void>(arena.release());
  }
  const NoFork no_fork;
  std::lock_guard lock(mutex_);
  more_.push_back(std::move(arena));
  more_count_.store(more_.size(), std::memory_order_relaxed);
}

}  // namespace tenon
