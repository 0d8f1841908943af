// Pin: keeps what an atomic pointer points at alive while it is used, without a lock and without a write that other
// threads wait for. A reader writes the pointer into a cell of its own thread and looks again whether it still stands;
// who takes an object away first unlinks it, then asks pinned(), and frees it only when no cell has it. Pins end in any
// order and on any thread. Tested by tests/unit/runtime/cache_test.cc.
#pragma once

#include <atomic>
#include <utility>

namespace tenon {

using PinCell = std::atomic<const void*>;

namespace pin_detail {
// An empty cell of this thread, null where all are in use or the thread has none yet.
PinCell* quick_cell() noexcept;
PinCell* any_cell();  // throws std::bad_alloc
}  // namespace pin_detail

inline PinCell& pin_cell() {
  PinCell* cell = pin_detail::quick_cell();
  return cell ? *cell : *pin_detail::any_cell();
}

// Whether a cell of some thread holds the object. Only for objects that no atomic pointer leads to any more.
bool pinned(const void* object);
// A small number of this thread, for spreading counters.
unsigned thread_number();

template <class T>
class Pin {
 public:
  Pin() = default;
  // What `from` points at, null included.
  explicit Pin(const std::atomic<T*>& from) {
    T* p = from.load(std::memory_order_acquire);
    if (!p) return;
    cell_ = &pin_cell();
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
  // An object that cannot be freed before this returns.
  static Pin of(T* object) {
    Pin pin;
    pin.cell_ = &pin_cell();
    pin.cell_->store(object, std::memory_order_seq_cst);
    pin.object_ = object;
    return pin;
  }
  Pin(Pin&& other) noexcept
      : cell_(std::exchange(other.cell_, nullptr)), object_(std::exchange(other.object_, nullptr)) {}
  Pin& operator=(Pin&& other) noexcept {
    clear();
    cell_ = std::exchange(other.cell_, nullptr), object_ = std::exchange(other.object_, nullptr);
    return *this;
  }
  ~Pin() { clear(); }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  void clear() {
    if (cell_) cell_->store(nullptr, std::memory_order_release);
    cell_ = nullptr, object_ = nullptr;
  }
  PinCell* cell_ = nullptr;
  T* object_ = nullptr;
};

}  // namespace tenon
