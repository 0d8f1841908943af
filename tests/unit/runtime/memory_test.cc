// The offsets of intermediates, and the arenas that hold them.
#include "src/backend/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tenon {
namespace {

Lifetime lifetime(int64_t bytes, int first, int last, int share = -1) { return {bytes, first, last, share}; }

TEST(Offsets, AChainTakesTwoBuffers) {
  std::vector<Lifetime> values;
  for (int i = 0; i < 10; ++i) values.push_back(lifetime(1000, i, i + 1));
  EXPECT_EQ(assign_offsets(values), 2 * align_up(1000));
}

TEST(Offsets, InPlaceValuesAreOne) {
  std::vector<Lifetime> values{lifetime(1000, 0, 1), lifetime(1000, 1, 2, 0), lifetime(1000, 2, 3, 1),
                               lifetime(64, 0, 3)};
  EXPECT_EQ(assign_offsets(values), align_up(1000) + 64);
  EXPECT_EQ(values[0].offset, values[1].offset);
  EXPECT_EQ(values[0].offset, values[2].offset);
}

TEST(Offsets, ScratchMemoryLiesBesideWhatIsAlive) {
  std::vector<Lifetime> values{lifetime(1000, 0, 1), lifetime(500, 1, 5), lifetime(64, 4, 6)};
  assign_offsets(values);
  EXPECT_EQ(free_offset(values, 600, 2, 2), 0);
  EXPECT_EQ(free_offset(values, 600, 1, 2), align_up(1000) + align_up(500));
  EXPECT_EQ(free_offset(values, 5000, 2, 6), align_up(1000) + align_up(500));
  EXPECT_EQ(free_offset(values, 1, 7, 9), 0);
}

TEST(Offsets, OfNothing) {
  std::vector<Lifetime> none;
  EXPECT_EQ(assign_offsets(none), 0);
  std::vector<Lifetime> empty{lifetime(0, 0, 5), lifetime(0, 2, 3)};
  EXPECT_EQ(assign_offsets(empty), 0);
}

// Values that are alive at the same time never overlap, every offset is aligned, and the total is at most the sum of all sizes.
TEST(Offsets, Random) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> values;
    const int n = 1 + static_cast<int>(random() % 40);
    int64_t sum = 0, most = 0;
    for (int i = 0; i < n; ++i) {
      const int first = static_cast<int>(random() % 30);
      values.push_back(
          lifetime(static_cast<int64_t>(random() % 5000), first, first + static_cast<int>(random() % 8)));
      sum += align_up(values.back().bytes);
    }
    for (int step = 0; step < 40; ++step) {
      int64_t alive = 0;
      for (const Lifetime& v : values)
        if (v.first <= step && step <= v.last) alive += align_up(v.bytes);
      most = std::max(most, alive);
    }
    const int64_t total = assign_offsets(values);
    EXPECT_LE(total, sum);
    EXPECT_GE(total, most);
    for (const Lifetime& a : values) {
      EXPECT_EQ(a.offset % kAlign, 0);
      EXPECT_LE(a.offset + a.bytes, std::max(total, a.offset));
      for (const Lifetime& b : values) {
        if (&a == &b || !a.bytes || !b.bytes || a.last < b.first || b.last < a.first) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
    }
  }
}

TEST(Offsets, RandomRegions) {
  std::mt19937 random(8);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  int inside = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> values;
    for (int i = 1 + below(40); i-- > 0;) {
      const int first = below(30);
      values.push_back(lifetime(below(8000), first, first + below(8)));
    }
    std::vector<Region> regions;
    for (int i = below(6); i-- > 0;) {
      const int from = below(30);
      regions.push_back({below(20000), from, from + below(30), 1 + below(3000)});
    }
    const int64_t total = assign_offsets(values, regions);
    const int64_t bytes = 1 + below(4000);
    const int first = below(30), last = first + below(4);
    const int64_t free = free_offset(values, bytes, first, last);
    EXPECT_EQ(free % kAlign, 0);
    EXPECT_LE(free, total);
    for (const Lifetime& a : values) {
      if (a.region < 0 && a.bytes > 0 && a.first <= last && first <= a.last) {
        EXPECT_TRUE(a.offset + a.bytes <= free || free + bytes <= a.offset);
      }
      if (a.region < 0) continue;
      ++inside;
      const Region& region = regions[static_cast<size_t>(a.region)];
      EXPECT_GE(a.first, region.from);
      EXPECT_LT(a.last, region.until);
      EXPECT_GE(a.bytes, region.least);
      EXPECT_LE(a.offset + a.bytes, region.bytes);
      for (const Lifetime& b : values) {
        if (&a == &b || a.region != b.region || !b.bytes || a.last < b.first || b.last < a.first) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
    }
  }
  EXPECT_GT(inside, 300);
}

TEST(ArenaPool, KeepsWhatIsLargeEnough) {
  ArenaPool pool;
  auto small = pool.take(100);
  char* const at = small->data();
  pool.give(std::move(small));
  auto again = pool.take(4000);
  EXPECT_EQ(again->data(), at) << "a block is a page at least";
  pool.give(std::move(again));
  EXPECT_GE(pool.take(1 << 20)->size(), 1 << 20);
}

TEST(ArenaPool, TakesOneThatIsLargeEnough) {
  ArenaPool pool;
  auto small = pool.take(100), large = pool.take(1 << 20), middle = pool.take(1 << 16);
  char* const at = large->data();
  for (auto* arena : {&small, &large, &middle}) pool.give(std::move(*arena));
  auto again = pool.take(1 << 18);
  EXPECT_EQ(again->data(), at);
  EXPECT_EQ(pool.take(1 << 17)->size(), int64_t{1} << 17) << "the others are too small";
  EXPECT_EQ(pool.take(50)->size(), 4096) << "and stay";
}

TEST(Arena, KeepsWhatIsNotTrimmed) {
  Arena arena(4 << 20);
  std::fill(arena.data(), arena.data() + arena.size(), 'x');
  arena.trim((2 << 20) + 1);
  EXPECT_EQ(std::count(arena.data(), arena.data() + arena.size(), 'x'), (2 << 20) + 4096);
  arena.data()[arena.size() - 1] = 'y';
  EXPECT_EQ(arena.data()[arena.size() - 1], 'y');
}

TEST(ArenaPool, IsShared) {
  auto pool = ArenaPool::shared({});
  EXPECT_EQ(pool, ArenaPool::shared({}));
  int user = 0;
  Allocator other{[](void*, size_t bytes, size_t alignment) { return std::aligned_alloc(alignment, bytes); },
                  [](void* user, void* block, size_t) {
                    ++*static_cast<int*>(user);
                    std::free(block);
                  },
                  &user};
  auto hosts = ArenaPool::shared(other);
  EXPECT_NE(pool, hosts);
  hosts->give(hosts->take(1000));
  ArenaPool::release_all();
  EXPECT_EQ(user, 1);
  hosts->give(hosts->take(1000));
  hosts.reset();
  EXPECT_EQ(user, 2) << "it ends with its last owner";
}

TEST(ArenaPool, HostsMemory) {
  struct Host {
    int64_t held = 0, calls = 0;
    bool refuse = false;
  } host;
  Allocator allocator;
  allocator.user = &host;
  allocator.alloc = [](void* user, size_t bytes, size_t alignment) -> void* {
    auto* h = static_cast<Host*>(user);
    if (h->refuse) return nullptr;
    ++h->calls;
    h->held += static_cast<int64_t>(bytes);
    return std::aligned_alloc(alignment, bytes);
  };
  allocator.free = [](void* user, void* block, size_t bytes) {
    static_cast<Host*>(user)->held -= static_cast<int64_t>(bytes);
    std::free(block);
  };
  {
    ArenaPool pool(allocator);
    pool.give(pool.take(1000));
    pool.give(pool.take(1000));
    EXPECT_EQ(host.calls, 1);
    EXPECT_EQ(host.held, align_up(1000));
    host.refuse = true;
    EXPECT_THROW(pool.take(1 << 20), std::bad_alloc);
  }
  EXPECT_EQ(host.held, 0);
}

}  // namespace
}  // namespace tenon
