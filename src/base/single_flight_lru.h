// SingleFlightLru: what was worked out for a key, by the first who asked under a mutex of that key, and kept for the `most` keys
// that were asked for last. Any thread. Tested by tests/unit/backends/onednn_test.cc and tests/unit/backends/cublaslt_test.cc.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tenon {

template <class T>
class SingleFlightLru {
 public:
  struct Entry {
    std::mutex mutex;          // of value
    std::shared_ptr<T> value;  // null: not yet
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
  void clear() {
    std::lock_guard lock(mutex_);
    where_.clear();
    order_.clear();
  }

 private:
  using Order = std::list<std::pair<std::string, std::shared_ptr<Entry>>>;  // the latest first
  const size_t most_;
  std::mutex mutex_;
  Order order_;
  std::unordered_map<std::string_view, typename Order::iterator> where_;  // keys stand in order_
};

}  // namespace tenon
