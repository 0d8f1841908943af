// ByAlignment: the algorithms that a library chose for a call, by alignment of the call's pointers. The plan chooses the one for the
// greatest alignment; a run with less aligned pointers chooses another one when such pointers first come. Choices live as long as
// this object, also the library's answer that it has no algorithm. Any thread. A choice that exists is found without a lock.
// Tested by tests/unit/backends/library_test.cc.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "src/base/status.h"

namespace tenon::library {

template <class Algorithm>
class ByAlignment {
  static constexpr int kBits = 4;

 public:
  // The greatest alignment in bytes that matters: the widest accesses, of vectors and of TMA, need no more.
  static constexpr int64_t kMost = int64_t{1} << kBits;

  // The algorithm for pointers whose bitwise or is `bits`. make(alignment) returns a Result of a shared pointer.
  template <class Make>
  Result<const Algorithm*> at(uintptr_t bits, const Make& make) const {
    const int place = __builtin_ctzll(bits | uintptr_t{kMost});
    if (const Algorithm* ready = ready_[place].load(std::memory_order_acquire)) return ready;
    {
      std::lock_guard lock(mutex_);
      if (!refused_[place].ok()) return refused_[place];
    }
    Result<std::shared_ptr<const Algorithm>> made = make(int64_t{1} << place);
    if (made.ok()) return keep(place, std::move(*made));
    if (made.status().code() == Code::unsupported) {
      std::lock_guard lock(mutex_);
      refused_[place] = made.status();
    }
    return made.status();
  }
  void keep_most(std::shared_ptr<const Algorithm> algorithm) { keep(kBits, std::move(algorithm)); }

  int64_t bytes() const {
    std::lock_guard lock(mutex_);
    int64_t sum = 0;
    for (const auto& algorithm : kept_) sum += algorithm ? algorithm->bytes() : 0;
    return sum;
  }

 private:
  // If several threads choose at once, the first choice stays.
  const Algorithm* keep(int place, std::shared_ptr<const Algorithm> algorithm) const {
    std::lock_guard lock(mutex_);
    if (!kept_[place]) kept_[place] = std::move(algorithm);
    ready_[place].store(kept_[place].get(), std::memory_order_release);
    return kept_[place].get();
  }

  mutable std::array<std::atomic<const Algorithm*>, kBits + 1> ready_{};
  mutable std::mutex mutex_;  // guards the members below
  mutable std::array<std::shared_ptr<const Algorithm>, kBits + 1> kept_;
  mutable std::array<Status, kBits + 1> refused_;
};

}  // namespace tenon::library
