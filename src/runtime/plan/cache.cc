// See cache.h. Readers look into a table of atomic pointers and protect the entry that they find; everything
// else happens under the mutex. While the table grows it may miss a plan, but it never shows a wrong one: a
// reader that finds nothing asks again under the mutex, where the table is exact.
#include "src/runtime/plan/cache.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "src/base/no_fork.h"

namespace tenon {
namespace {

uint64_t hash_of(std::span<const int64_t> key) {
  uint64_t h = 0x9E3779B97F4A7C15;
  for (int64_t v : key) {
    h = (h ^ static_cast<uint64_t>(v)) * 0xD6E8FEB86659FD93;
    h ^= h >> 32;
  }
  return h * 0xD6E8FEB86659FD93 >> 8;
}

constexpr size_t kMostBuckets = 4;  // per plan

constexpr PlanLimits at_least_one(PlanLimits limits) {
  return {std::max<int64_t>(limits.plans, 1), std::max<int64_t>(limits.bytes, 0)};
}

}  // namespace

PlanCache::PlanCache(const PlanLimits& limits) : limits_(at_least_one(limits)) {
  tables_.push_back(std::make_unique<Table>(1));
  table_.store(tables_.back().get(), std::memory_order_release);
}

PlanCache::~PlanCache() = default;

bool PlanCache::Entry::is_of(uint64_t h, std::span<const int64_t> k) const {
  return hash == h && std::ranges::equal(k, key());
}

PlanCache::Use PlanCache::find(std::span<const int64_t> key) {
  const uint64_t hash = hash_of(key);
  Slot* slots = table_.load(std::memory_order_acquire)->bucket(hash);
  for (size_t i = 0; i < kBucket; ++i) {
    if (slots[i].hash.load(std::memory_order_relaxed) != hash) continue;
    HazardPointer<Entry> entry(slots[i].entry);
    if (!entry || !entry->is_of(hash, key)) continue;
    if (!entry->plan) return {};  // find_or_make returns the reason
    if (!entry->used.load(std::memory_order_relaxed)) entry->used.store(true, std::memory_order_relaxed);
    count_hit();
    return Use(std::move(entry));
  }
  return {};
}

Result<PlanCache::Use> PlanCache::find_or_make(std::span<const int64_t> key, const Make& make,
                                               const Watch* watch) {
  const NoFork no_fork;
  const uint64_t hash = hash_of(key);
  std::shared_ptr<Flight> flight;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (Entry* at_hand = look(key, hash)) {
      at_hand->used.store(true, std::memory_order_relaxed);
      count_hit();
      if (!at_hand->plan) return at_hand->why;
      return Use(HazardPointer<Entry>::of(at_hand));
    }
    auto under_way = std::find_if(flights_.begin(), flights_.end(), [&](const auto& f) {
      return std::equal(key.begin(), key.end(), f->key.begin(), f->key.end());
    });
    if (under_way == flights_.end()) break;
    flight = *under_way;
    ++waits_;
    ++flight->waiting;
    if (watch) {
      lock.unlock();
      (*watch)(Event::wait, key, nullptr);
      lock.lock();
    }
    flight->done.wait(lock, [&] { return flight->ended; });
    if (flight->entry) {
      Use use(HazardPointer<Entry>::of(flight->entry));
      --flight->entry->handed;
      return use;
    }
    if (!flight->again) return flight->status;
  }

  flight = std::make_shared<Flight>();
  flight->key.assign(key.begin(), key.end());
  flights_.push_back(flight);
  ++misses_;
  Use near = watch ? nearest(key) : Use();
  lock.unlock();

  Doomed doomed;
  Keys evicted;
  Use use;
  auto end = [&](bool again) {
    flight->ended = true;
    flight->again = again;
    std::erase(flights_, flight);
    flight->done.notify_all();
  };
  try {
    if (watch) (*watch)(Event::miss, key, near ? &*near : nullptr);
    near = Use();
    const auto start = std::chrono::steady_clock::now();
    Result<std::unique_ptr<Plan>> made = make();
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    const Status status = made.status();
    std::unique_ptr<Entry> entry = entry_of(key, hash, std::move(made));
    lock.lock();
    make_ms_ += ms;
    if (Entry* fresh = entry.get()) {
      if (fresh->plan) use = Use(HazardPointer<Entry>::of(fresh));
      insert(std::move(entry));
      if (fresh->plan) {
        fresh->handed = flight->waiting;
        flight->entry = fresh;
      }
      shrink(doomed, watch ? &evicted : nullptr);
    }
    flight->status = status;
    end(false);
  } catch (...) {  // out of memory, or a bug of Tenon: the next waiter tries again
    if (!lock.owns_lock()) lock.lock();
    if (!flight->ended) end(true);
    throw;
  }
  lock.unlock();
  doomed.clear();
  for (const auto& gone : evicted) (*watch)(Event::evict, gone, nullptr);
  if (!use) return flight->status;
  return use;
}

// Null for an error that is not kept.
std::unique_ptr<PlanCache::Entry> PlanCache::entry_of(std::span<const int64_t> key, uint64_t hash,
                                                      Result<std::unique_ptr<Plan>> made) {
  if (!made.ok() && made.status().code() != Code::unsupported) return nullptr;
  auto entry = std::make_unique<Entry>();
  entry->hash = hash;
  entry->bytes = static_cast<int64_t>(sizeof(Entry));
  if (made.ok()) {
    entry->plan = std::move(*made);
    entry->bytes += entry->plan->bytes();
  } else {
    entry->refused_key.assign(key.begin(), key.end());
    entry->why = made.status();
    entry->bytes += static_cast<int64_t>(key.size_bytes() + entry->why.message().size());
  }
  return entry;
}

PlanCache::Entry* PlanCache::look(std::span<const int64_t> key, uint64_t hash) const {
  for (Slot *s = tables_.back()->bucket(hash), *end = s + kBucket; s != end; ++s) {
    Entry* e = s->entry.load(std::memory_order_relaxed);
    if (e && e->is_of(hash, key)) return e;
  }
  return nullptr;
}

void PlanCache::insert(std::unique_ptr<Entry> entry) {
  entries_.push_back(std::move(entry));
  Entry* fresh = entries_.back().get();
  fresh->at = std::prev(entries_.end());
  try {
    while (!place(*tables_.back(), fresh)) {
      // Without this limit, keys chosen to meet in one bucket would make the table grow forever.
      if (tables_.back()->mask < kMostBuckets * std::bit_ceil(entries_.size()))
        grow();
      else
        unlink(tables_.back()->bucket(fresh->hash)->entry.load(std::memory_order_relaxed));
    }
  } catch (...) {
    entries_.pop_back();
    throw;
  }
  bytes_ += fresh->bytes;
  last_ = fresh;
  if (fresh->plan)
    newest_ = fresh;
  else
    ++refusals_;
}

bool PlanCache::place(Table& table, Entry* entry) {
  for (Slot *s = table.bucket(entry->hash), *end = s + kBucket; s != end; ++s) {
    if (s->entry.load(std::memory_order_relaxed)) continue;
    s->hash.store(entry->hash, std::memory_order_relaxed);
    s->entry.store(entry, std::memory_order_seq_cst);
    return true;
  }
  return false;
}

// Each bucket splits into two, so everything fits.
void PlanCache::grow() {
  tables_.reserve(tables_.size() + 1);
  tables_.push_back(std::make_unique<Table>(2 * (tables_.back()->mask + 1)));
  for (const auto& e : entries_)
    if (e.get() != entries_.back().get()) place(*tables_.back(), e.get());
  table_.store(tables_.back().get(), std::memory_order_seq_cst);
  // Readers of the former table must not find entries that leave the new table later.
  for (Slot& s : tables_[tables_.size() - 2]->slots) s.entry.store(nullptr, std::memory_order_seq_cst);
}

void PlanCache::unlink(Entry* e) {
  retired_.reserve(retired_.size() + 1);
  for (Slot *s = tables_.back()->bucket(e->hash), *end = s + kBucket; s != end; ++s)
    if (s->entry.load(std::memory_order_relaxed) == e) s->entry.store(nullptr, std::memory_order_seq_cst);
  bytes_ -= e->bytes;
  retired_bytes_ += e->bytes;
  retired_.push_back(std::move(*e->at));
  entries_.erase(e->at);
  if (e == last_) last_ = nullptr;
  if (e == newest_) newest_ = nullptr;
  if (!e->plan) --refusals_;
  ++evictions_;
}

void PlanCache::shrink(Doomed& doomed, Keys* evicted) {
  // An entry used since the last round moves to the back once more. The latest entry is never evicted.
  size_t chances = entries_.size();
  while (entries_.size() > 1 &&
         (static_cast<int64_t>(entries_.size()) > limits_.plans || bytes_ > limits_.bytes)) {
    Entry* e = entries_.front().get();
    if (e == last_ || (chances > 0 && e->used.exchange(false, std::memory_order_relaxed))) {
      if (chances > 0) --chances;
      entries_.splice(entries_.end(), entries_, e->at);
      continue;
    }
    if (evicted) evicted->push_back(e->key());
    unlink(e);
  }
  sweep(doomed);
}

void PlanCache::sweep(Doomed& doomed) {
  doomed.reserve(retired_.size());
  auto in_use = [](const std::unique_ptr<Entry>& e) { return e->handed > 0 || is_protected(e.get()); };
  auto unused = std::partition(retired_.begin(), retired_.end(), in_use);
  for (auto e = unused; e != retired_.end(); ++e) {
    retired_bytes_ -= (*e)->bytes;
    doomed.push_back(std::move(*e));
  }
  retired_.erase(unused, retired_.end());
}

PlanCache::Use PlanCache::nearest(std::span<const int64_t> key) const {
  Entry* best = nullptr;
  size_t fewest = key.size() + 1;
  for (auto e = entries_.rbegin(); e != entries_.rend(); ++e) {  // the newer one wins
    if (!(*e)->plan) continue;
    const std::vector<int64_t>& other = (*e)->key();
    size_t differ = 0;
    for (size_t i = 0; i < key.size(); ++i) differ += key[i] != other[i];
    if (differ < fewest) best = e->get(), fewest = differ;
  }
  return best ? Use(HazardPointer<Entry>::of(best)) : Use();
}

void PlanCache::set_limits(const PlanLimits& limits, const Watch* watch) {
  const NoFork no_fork;
  Doomed doomed;
  Keys evicted;
  {
    std::lock_guard lock(mutex_);
    limits_ = at_least_one(limits);
    shrink(doomed, watch ? &evicted : nullptr);
  }
  doomed.clear();
  for (const auto& gone : evicted) (*watch)(Event::evict, gone, nullptr);
}

PlanLimits PlanCache::limits() const {
  const NoFork no_fork;
  std::lock_guard lock(mutex_);
  return limits_;
}

PlanStats PlanCache::stats() const {
  const NoFork no_fork;
  std::lock_guard lock(mutex_);
  PlanStats s;
  s.plans = static_cast<int64_t>(entries_.size()) - refusals_;
  s.refusals = refusals_;
  s.bytes = bytes_ + retired_bytes_;
  for (const Counter& c : hits_) s.hits += c.value.load(std::memory_order_relaxed);
  s.misses = misses_, s.waits = waits_, s.evictions = evictions_, s.make_ms = make_ms_;
  return s;
}

PlanCache::Use PlanCache::newest() const {
  const NoFork no_fork;
  std::lock_guard lock(mutex_);
  return newest_ ? Use(HazardPointer<Entry>::of(newest_)) : Use();
}

}  // namespace tenon
