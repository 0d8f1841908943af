// SingleFlightLru: a cache of results by key that keeps the `most` keys asked for most recently. The first
// caller for a key computes the value under the mutex of its entry, and later callers wait. Any thread.
// Tested by tests/unit/backends/library_test.cc and tests/unit/backends/onednn_test.cc.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "src/base/status.h"

namespace tenon {

template <class T>
class SingleFlightLru {
 public:
  struct Entry {
    std::mutex mutex;          // guards value
    std::shared_ptr<T> value;  // null: not computed yet
  };

  explicit SingleFlightLru(size_t most) : most_(most) {}

  std::shared_ptr<Entry> at(std::string key) {
    std::lock_guard lock(mutex_);
    if (auto found = where_.find(key); found != where_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    order_.emplace_front(std::move(key), std::make_shared<Entry>());
    where_.emplace(order_.front().first, order_.begin());
    if (order_.size() > most_) {
      where_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }
  // The value for a key. make() computes it, as a Result of a shared pointer; a failure is not kept.
  template <class Make>
  Result<std::shared_ptr<T>> get(std::string key, const Make& make) {
    const std::shared_ptr<Entry> entry = at(std::move(key));
    std::lock_guard lock(entry->mutex);
    if (!entry->value) {
      TENON_ASSIGN(entry->value, make());
    }
    return entry->value;
  }
  void clear() {
    std::lock_guard lock(mutex_);
    where_.clear();
    order_.clear();
  }

 private:
  using Order = std::list<std::pair<std::string, std::shared_ptr<Entry>>>;  // most recent first
  const size_t most_;
  std::mutex mutex_;
  Order order_;
  std::unordered_map<std::string_view, typename Order::iterator> where_;  // the keys point into order_
};

}  // namespace tenon
