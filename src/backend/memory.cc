// See memory.h. Tested by tests/unit/runtime/memory_test.cc.
#include "src/backend/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <numeric>

#include "src/base/no_fork.h"

namespace tenon {
namespace {

// The lowest offset of so many bytes beside the busy ones, which are pairs of a begin and an end.
int64_t lowest_gap(std::vector<std::pair<int64_t, int64_t>>& busy, int64_t bytes) {
  std::sort(busy.begin(), busy.end());
  int64_t at = 0;
  for (auto [begin, end] : busy) {
    if (at + bytes <= begin) break;
    at = std::max(at, end);
  }
  return at;
}

// Places values in one block of memory.
class Placed {
 public:
  // The lowest offset at which `bytes` are free from step `first` to step `last`.
  int64_t offset(int64_t bytes, int first, int last) const {
    std::vector<std::pair<int64_t, int64_t>> busy;
    for (const Value& v : values_)
      if (v.first <= last && first <= v.last) busy.push_back({v.begin, v.end});
    return lowest_gap(busy, bytes);
  }
  void add(int64_t offset, int64_t bytes, int first, int last) {
    values_.push_back({offset, offset + bytes, first, last});
  }

 private:
  struct Value {
    int64_t begin, end;
    int first, last;
  };
  std::vector<Value> values_;
};

}  // namespace

int64_t assign_offsets(std::vector<Lifetime>& values, const std::vector<Region>& regions) {
  // Values that share a buffer are placed as one, alive over all their lifetimes.
  const size_t n = values.size();
  std::vector<Lifetime> whole(n);
  std::vector<int> root(n);
  for (size_t i = 0; i < n; ++i) {
    root[i] = static_cast<int>(i);
    while (values[root[i]].share >= 0) root[i] = values[root[i]].share;
    whole[i] = values[i];
  }
  for (size_t i = 0; i < n; ++i) {
    Lifetime& w = whole[root[i]];
    w.first = std::min(w.first, values[i].first);
    w.last = std::max(w.last, values[i].last);
    w.bytes = std::max(w.bytes, values[i].bytes);
  }
  std::vector<int> order;
  for (size_t i = 0; i < n; ++i)
    if (root[i] == static_cast<int>(i) && whole[i].bytes > 0) order.push_back(static_cast<int>(i));
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(-align_up(whole[a].bytes), a) < std::pair(-align_up(whole[b].bytes), b);
  });
  int64_t total = 0;
  Placed workspace;
  std::vector<Placed> in_region(regions.size());
  const auto place_in_region = [&](Lifetime& w) {
    for (size_t r = 0; r < regions.size(); ++r) {
      const Region& region = regions[r];
      if (w.first < region.from || w.last >= region.until) continue;
      if (w.bytes < region.least || w.bytes > region.bytes) continue;
      w.offset = in_region[r].offset(w.bytes, w.first, w.last);
      if (w.offset + w.bytes > region.bytes) continue;
      in_region[r].add(w.offset, align_up(w.bytes), w.first, w.last);
      w.region = static_cast<int>(r);
      return true;
    }
    return false;
  };
  for (int i : order) {
    Lifetime& w = whole[i];
    if (place_in_region(w)) continue;
    w.offset = workspace.offset(align_up(w.bytes), w.first, w.last);
    workspace.add(w.offset, align_up(w.bytes), w.first, w.last);
    total = std::max(total, w.offset + align_up(w.bytes));
  }
  for (size_t i = 0; i < n; ++i)
    values[i].offset = whole[root[i]].offset, values[i].region = whole[root[i]].region;
  return total;
}

int64_t free_offset(const std::vector<Lifetime>& values, int64_t bytes, int first, int last) {
  std::vector<std::pair<int64_t, int64_t>> busy;
  for (const Lifetime& v : values)
    if (v.region < 0 && v.bytes > 0 && v.first <= last && first <= v.last)
      busy.push_back({v.offset, v.offset + align_up(v.bytes)});
  return lowest_gap(busy, align_up(bytes));
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

void Arena::trim(int64_t bytes) {
  constexpr int64_t kPage = 4096, kWorthwhile = int64_t{1} << 20;
  const int64_t kept = (bytes + kPage - 1) / kPage * kPage;
  if (!allocator_.alloc && size_ - kept >= kWorthwhile)
    madvise(data_ + kept, static_cast<size_t>(size_ - kept), MADV_DONTNEED);
}

Arena::~Arena() {
  if (allocator_.alloc)
    allocator_.free(allocator_.user, data_, static_cast<size_t>(size_));
  else
    std::free(data_);
}

namespace {

struct SharedPools {
  std::mutex mutex;
  std::vector<std::weak_ptr<ArenaPool>> list;
};

SharedPools& shared_pools() {
  static SharedPools* const pools = new SharedPools;  // programs may outlive static objects
  return *pools;
}

}  // namespace

ArenaPool::~ArenaPool() { release(); }

std::shared_ptr<ArenaPool> ArenaPool::shared(const Allocator& allocator) {
  const NoFork no_fork;
  SharedPools& pools = shared_pools();
  std::lock_guard lock(pools.mutex);
  std::erase_if(pools.list, [](const auto& pool) { return pool.expired(); });
  for (const auto& known : pools.list)
    if (auto pool = known.lock(); pool && pool->allocator_ == allocator) return pool;
  auto pool = std::make_shared<ArenaPool>(allocator);
  pools.list.push_back(pool);
  return pool;
}

void ArenaPool::release_all() {
  const NoFork no_fork;
  SharedPools& pools = shared_pools();
  std::vector<std::shared_ptr<ArenaPool>> living;  // outlives the lock: its last owner may be this function
  std::lock_guard lock(pools.mutex);
  for (const auto& known : pools.list)
    if (auto pool = known.lock()) living.push_back(std::move(pool));
  for (const auto& pool : living) pool->release();
}

void ArenaPool::release() {
  for (auto& s : spare_) delete s.exchange(nullptr, std::memory_order_acq_rel);
  const NoFork no_fork;
  std::lock_guard lock(mutex_);
  more_.clear();
  more_count_.store(0, std::memory_order_relaxed);
}

// One that is large enough, else the largest; null if there is none.
std::unique_ptr<Arena> ArenaPool::take_spare(int64_t bytes) {
  std::unique_ptr<Arena> best;
  for (auto& s : spare_) {
    if (!s.load(std::memory_order_relaxed)) continue;
    std::unique_ptr<Arena> other(s.exchange(nullptr, std::memory_order_acq_rel));
    if (other && (!best || other->size() > best->size())) std::swap(best, other);
    if (other) give(std::move(other));
    if (best && best->size() >= bytes) return best;
  }
  if (best || more_count_.load(std::memory_order_relaxed) == 0) return best;
  const NoFork no_fork;
  std::lock_guard lock(mutex_);
  if (more_.empty()) return nullptr;
  best = std::move(more_.back());
  more_.pop_back();
  more_count_.store(more_.size(), std::memory_order_relaxed);
  return best;
}

std::unique_ptr<Arena> ArenaPool::take(int64_t bytes) {
  std::unique_ptr<Arena> arena = take_spare(bytes);
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
