// PlanCache: the plans of one program, by the values of its symbols. A hit takes no lock, allocates nothing,
// and writes nothing that other threads wait for. On a miss, one thread makes the plan; threads that ask for
// the same plan wait, threads that ask for another do not. The number and the bytes of plans are bounded.
// Second chance picks the plans to evict; a plan that is still running is freed when its runs end. Sizes for
// which a back end has no plan (unsupported) are kept in the same way, with the reason. Any thread. Tested by
// tests/unit/runtime/cache_test.cc.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/base/threads/hazard_pointer.h"
#include "src/runtime/plan/plan.h"

namespace tenon {

struct PlanLimits {
  int64_t plans = 1024;
  int64_t bytes = int64_t{256} << 20;
};

struct PlanStats {
  int64_t plans = 0;
  int64_t refusals = 0;   // sizes known to have no plan
  int64_t bytes = 0;      // of plans and refusals, and of evicted plans that still run
  int64_t hits = 0;       // of plans and refusals
  int64_t misses = 0;     // plans that had to be made, including failures
  int64_t waits = 0;      // calls that waited for another thread to make their plan
  int64_t evictions = 0;  // to stay within the limits
  double make_ms = 0;
};

class PlanCache {
  struct Entry {
    uint64_t hash = 0;
    std::unique_ptr<const Plan> plan;  // null: refused
    std::vector<int64_t> refused_key;
    Status why;  // the reason for the refusal
    int64_t bytes = 0;
    int handed = 0;  // waiters that will get the entry and have not protected it yet
    std::list<std::unique_ptr<Entry>>::iterator at;
    std::atomic<bool> used{false};

    const std::vector<int64_t>& key() const { return plan ? plan->key() : refused_key; }
    bool is_of(uint64_t h, std::span<const int64_t> k) const;
  };

 public:
  // Keeps a plan alive, evicted or not. Empty if there is no plan.
  class Use {
   public:
    Use() = default;
    const Plan& operator*() const { return *entry_->plan; }
    const Plan* operator->() const { return entry_->plan.get(); }
    explicit operator bool() const { return static_cast<bool>(entry_); }

   private:
    friend PlanCache;
    explicit Use(HazardPointer<Entry> entry) : entry_(std::move(entry)) {}
    HazardPointer<Entry> entry_;
  };
  using Make = std::function<Result<std::unique_ptr<Plan>>()>;
  // An event of a key, for the log; called without a lock held. `near`: the cached plan whose key differs in
  // the fewest values, or null.
  enum class Event { miss, wait, evict };
  using Watch = std::function<void(Event, std::span<const int64_t> key, const Plan* near)>;

  explicit PlanCache(const PlanLimits& limits = {});
  ~PlanCache();  // no Use may be left
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  // Returns the cached plan, or empty. A key is that of Plan::key(). The hot path.
  Use find(std::span<const int64_t> key);
  // Returns the cached plan, or makes it with `make`, without holding a lock. If `make` fails, every waiting
  // caller gets the error. Only `unsupported` is kept and answers later callers; other errors may be
  // temporary.
  Result<Use> find_or_make(std::span<const int64_t> key, const Make& make, const Watch* watch = nullptr);

  // Takes effect at once. The latest entry stays whatever the limits.
  void set_limits(const PlanLimits& limits, const Watch* watch = nullptr);
  PlanLimits limits() const;
  PlanStats stats() const;
  Use newest() const;  // the plan made last

 private:
  // A table of buckets. An entry that does not fit into its bucket makes the table grow. Tables only grow, so
  // all tables of a cache together are smaller than twice the last one.
  static constexpr size_t kBucket = 8;
  struct Slot {
    std::atomic<uint64_t> hash{0};
    std::atomic<Entry*> entry{nullptr};
  };
  struct Table {
    explicit Table(size_t buckets) : mask(buckets - 1), slots(buckets * kBucket) {}
    size_t mask;
    std::vector<Slot> slots;
    Slot* bucket(uint64_t hash) { return &slots[(hash & mask) * kBucket]; }
  };
  // A plan that some thread is making.
  struct Flight {
    std::vector<int64_t> key;
    std::condition_variable done;
    int waiting = 0;
    bool ended = false, again = false;
    Status status;
    Entry* entry = nullptr;
  };
  struct alignas(64) Counter {
    std::atomic<int64_t> value{0};
  };
  using Doomed = std::vector<std::unique_ptr<Entry>>;
  using Keys = std::vector<std::vector<int64_t>>;

  void count_hit() { hits_[thread_number() % hits_.size()].value.fetch_add(1, std::memory_order_relaxed); }
  // The callers of the functions below hold the mutex. Entries to free are moved to `doomed`, which is
  // destroyed after the mutex is released.
  Entry* look(std::span<const int64_t> key, uint64_t hash) const;
  static std::unique_ptr<Entry> entry_of(std::span<const int64_t> key, uint64_t hash,
                                         Result<std::unique_ptr<Plan>> made);
  void insert(std::unique_ptr<Entry> entry);
  static bool place(Table& table, Entry* entry);
  void grow();
  void unlink(Entry* entry);
  void shrink(Doomed& doomed, Keys* evicted);
  void sweep(Doomed& doomed);
  Use nearest(std::span<const int64_t> key) const;

  std::atomic<Table*> table_;
  std::array<Counter, 8> hits_;

  mutable std::mutex mutex_;
  PlanLimits limits_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::list<std::unique_ptr<Entry>> entries_;  // the next to be evicted comes first
  Doomed retired_;                             // evicted, but still in use
  std::vector<std::shared_ptr<Flight>> flights_;
  Entry *last_ = nullptr, *newest_ = nullptr;  // the latest entry, and the latest with a plan
  int64_t refusals_ = 0, bytes_ = 0, retired_bytes_ = 0, misses_ = 0, waits_ = 0, evictions_ = 0;
  double make_ms_ = 0;
};

}  // namespace tenon
