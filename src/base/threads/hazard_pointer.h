// HazardPointer: keeps the object behind an atomic pointer alive while it is in use, without a lock and
// without a write that other threads wait for. A reader writes the pointer into a cell of its own thread and
// then checks that the atomic pointer has not changed. To free an object, a thread first unlinks it, then
// asks is_protected(), and frees it only if no cell holds it. HazardPointers may end in any order and on any
// thread. Tested by tests/unit/runtime/cache_test.cc.
#pragma once

#include <atomic>
#include <utility>

namespace tenon {

using HazardCell = std::atomic<const void*>;

namespace hazard_detail {
// An empty cell of this thread; null if all are in use or the thread has none yet.
HazardCell* quick_cell() noexcept;
HazardCell* any_cell();  // throws std::bad_alloc
}  // namespace hazard_detail

inline HazardCell& hazard_cell() {
  HazardCell* cell = hazard_detail::quick_cell();
  return cell ? *cell : *hazard_detail::any_cell();
}

// Whether a cell of some thread holds the object. Only for objects that no atomic pointer leads to any more.
bool is_protected(const void* object);
// A small number of this thread, used to spread counters.
unsigned thread_number();

template <class T>
class HazardPointer {
 public:
  HazardPointer() = default;
  // Protects the object that `from` points to, which may be null.
  explicit HazardPointer(const std::atomic<T*>& from) {
    T* p = from.load(std::memory_order_acquire);
    if (!p) return;
    cell_ = &hazard_cell();
    for (;;) {
      cell_->store(p, std::memory_order_seq_cst);
      T* again = from.load(std::memory_order_seq_cst);
      if (again == p) break;
      p = again;
      if (!p) break;
    }
    if (!p) clear();
    object_ = p;
  }
  // Protects an object that cannot be freed before this function returns.
  static HazardPointer of(T* object) {
    HazardPointer pin;
    pin.cell_ = &hazard_cell();
    pin.cell_->store(object, std::memory_order_seq_cst);
    pin.object_ = object;
    return pin;
  }
  HazardPointer(HazardPointer&& other) noexcept
      : cell_(std::exchange(other.cell_, nullptr)), object_(std::exchange(other.object_, nullptr)) {}
  HazardPointer& operator=(HazardPointer&& other) noexcept {
    clear();
    cell_ = std::exchange(other.cell_, nullptr), object_ = std::exchange(other.object_, nullptr);
    return *this;
  }
  ~HazardPointer() { clear(); }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  void clear() {
    if (cell_) cell_->store(nullptr, std::memory_order_release);
    cell_ = nullptr, object_ = nullptr;
  }
  HazardCell* cell_ = nullptr;
  T* object_ = nullptr;
};

}  // namespace tenon
