// StackArray: an array whose length is known at run time. Up to N elements stand on the stack. The elements
// are not initialised.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace tenon {

template <class T, size_t N>
class StackArray {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit StackArray(size_t size)
      : heap_(size > N ? new T[size] : nullptr), data_(heap_ ? heap_.get() : stack_), size_(size) {}
  StackArray(const StackArray&) = delete;
  StackArray& operator=(const StackArray&) = delete;

  T* data() { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  size_t size() const { return size_; }
  std::span<T> all() { return {data_, size_}; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  T stack_[N];
  std::unique_ptr<T[]> heap_;
  T* data_;
  size_t size_;
};

}  // namespace tenon
