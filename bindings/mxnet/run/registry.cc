// subgraph_of: the registry of the process's subgraphs.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>

#include "bindings/mxnet/run/subgraph.h"

namespace tenon::plugin {
namespace {

constexpr size_t kMostSubgraphs = 512;  // a state keeps its own alive

// A number that tells most texts apart, at a cost that does not grow with them.
uint64_t fingerprint(std::string_view text) {
  uint64_t hash = text.size();
  const size_t step = text.size() / 64 + 1;
  for (size_t at = 0; at + 8 <= text.size(); at += step) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

struct Entry {
  std::shared_ptr<Subgraph> subgraph;
  uint64_t used;
};

struct Registry {
  std::mutex lock;
  std::unordered_multimap<uint64_t, Entry> entries;  // by fingerprint
  uint64_t requests = 0;

  std::shared_ptr<Subgraph> find(uint64_t key, std::string_view json, const Options& options) {
    const auto [begin, end] = entries.equal_range(key);
    for (auto it = begin; it != end; ++it)
      if (it->second.subgraph->is(json, options)) {
        it->second.used = ++requests;
        return it->second.subgraph;
      }
    return nullptr;
  }
};

// Never freed: engine threads may call while the process exits. A forked child starts with an empty one, because a thread that does not
// exist in the child may have held the lock.
std::atomic<Registry*> current{nullptr};

Registry& registry() {
  if (Registry* known = current.load(std::memory_order_acquire)) return *known;
  static const int watched = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
  (void)watched;
  auto* made = new Registry;
  Registry* expected = nullptr;
  if (current.compare_exchange_strong(expected, made)) return *made;
  delete made;
  return *expected;
}

}  // namespace

std::shared_ptr<Subgraph> subgraph_of(std::string_view json, const Options& options) {
  Registry& all = registry();
  const uint64_t key = fingerprint(json);
  {
    const std::lock_guard guard(all.lock);
    if (auto known = all.find(key, json, options)) return known;
  }
  auto made = std::make_shared<Subgraph>(json, options);
  const std::lock_guard guard(all.lock);
  if (auto known = all.find(key, json, options)) return known;
  if (all.entries.size() >= kMostSubgraphs)
    all.entries.erase(
        std::min_element(all.entries.begin(), all.entries.end(),
                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  all.entries.emplace(key, Entry{made, ++all.requests});
  return made;
}

}  // namespace tenon::plugin
