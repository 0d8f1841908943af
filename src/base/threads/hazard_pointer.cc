// See hazard_pointer.h. Cells are in records of one cache line. A record belongs to one thread and is passed
// on when the thread ends. Records are never freed: there are as many as threads ran at the same time.
#include "src/base/threads/hazard_pointer.h"

#include <pthread.h>

#include <mutex>

namespace tenon {
namespace {

constexpr int kCells = 8;

struct alignas(64) Record {
  HazardCell cells[kCells] = {};
};
struct Holder {
  Record record;
  Holder* next = nullptr;
  unsigned number = 0;
  std::atomic<bool> taken{true};
};

std::atomic<Holder*> records{nullptr};
std::atomic<unsigned> record_count{0};
thread_local Holder* own = nullptr;

// Gives the record back when the thread ends. HazardPointers that are still alive keep their cells.
struct Owner {
  Holder* node = nullptr;
  ~Owner() {
    if (node) node->taken.store(false, std::memory_order_release);
    own = nullptr;
  }
};
thread_local Owner owner;

// The child of a fork has one thread: cells of the other threads protect nothing any more.
void forget_other_threads() {
  for (Holder* n = records.load(); n; n = n->next) {
    if (n == own) continue;
    for (HazardCell& c : n->record.cells) c.store(nullptr, std::memory_order_relaxed);
    n->taken.store(false, std::memory_order_relaxed);
  }
}

HazardCell* empty_cell(Holder* n) {
  for (HazardCell& c : n->record.cells)
    if (!c.load(std::memory_order_relaxed)) return &c;
  return nullptr;
}

// Returns a record with an empty cell.
Holder* take_record() {
  for (Holder* n = records.load(std::memory_order_acquire); n; n = n->next) {
    bool taken = false;
    if (!n->taken.compare_exchange_strong(taken, true, std::memory_order_acquire)) continue;
    if (empty_cell(n)) return n;
    n->taken.store(false, std::memory_order_release);
  }
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, forget_other_threads); });
  Holder* n = new Holder;
  n->number = record_count.fetch_add(1);
  n->next = records.load();
  while (!records.compare_exchange_weak(n->next, n)) {
  }
  return n;
}

}  // namespace

namespace hazard_detail {

HazardCell* quick_cell() noexcept { return own ? empty_cell(own) : nullptr; }

HazardCell* any_cell() {
  // The record of this thread is full: pass it on, with its cells in use, and take another one.
  Holder* full = own;
  Holder* fresh = take_record();
  if (full) full->taken.store(false, std::memory_order_release);
  own = owner.node = fresh;
  return empty_cell(fresh);
}

}  // namespace hazard_detail

bool is_protected(const void* object) {
  for (Holder* n = records.load(); n; n = n->next)
    for (HazardCell& c : n->record.cells)
      if (c.load(std::memory_order_seq_cst) == object) return true;
  return false;
}

unsigned thread_number() { return own ? own->number : 0; }

}  // namespace tenon
