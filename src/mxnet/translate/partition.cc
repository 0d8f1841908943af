// See partition.h. Every node gets a level: how many times, at most, a path to it passes from a translated node to one
// that is not. Levels never fall along an edge, and an edge from a translated node to one that is not raises them. So
// translated nodes of one level that touch form a part, and a path that leaves the level never returns: no cycle.
//
//   sin (0, translated) -> cos (1) -> add (1, translated)     sin and add are different parts
//    `----------------------------------^
//
// Levels are lowest possible at first. Then parts rise, the highest first, to the lowest level of their readers: a
// branch that only joins a later part belongs to it.
#include "src/mxnet/translate/partition.h"

#include <algorithm>
#include <numeric>

namespace tenon::mxnet {
namespace {

class Partition {
 public:
  Partition(const Symbol& symbol, const Options& options)
      : symbol_(symbol), users_(symbol.users()), level_(symbol.nodes.size()), parent_(symbol.nodes.size()) {
    const std::vector<Answer> answers = check(symbol, options);
    for (const Answer& answer : answers) ours_.push_back(answer.row && answer.status.ok());
    std::iota(parent_.begin(), parent_.end(), 0u);
  }

  std::vector<int32_t> run(int min_nodes) {
    set_lowest_levels();
    join();
    raise_parts();
    join();
    return number(min_nodes);
  }

 private:
  // Calls fn(from) for each node that node n reads or waits for.
  template <class F>
  void before(size_t n, F fn) const {
    for (const Entry& e : symbol_.nodes[n].inputs) fn(e.node);
    for (const uint32_t dep : symbol_.nodes[n].control_deps) fn(dep);
  }
  int rise(size_t from, size_t to) const { return ours_[from] && !ours_[to]; }

  void set_lowest_levels() {
    for (size_t n = 0; n < level_.size(); ++n)
      before(n, [&](size_t from) { level_[n] = std::max(level_[n], level_[from] + rise(from, n)); });
  }

  uint32_t find(uint32_t n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }

  void join() {
    for (uint32_t n = 0; n < level_.size(); ++n)
      if (ours_[n])
        before(n, [&](uint32_t from) {
          if (ours_[from] && level_[from] == level_[n])
            parent_[std::max(find(n), find(from))] = std::min(find(n), find(from));
        });
  }

  // Nodes that are not ours stay: raising them would only raise what reads them.
  void raise_parts() {
    std::vector<std::vector<uint32_t>> members(level_.size());
    std::vector<uint32_t> parts;
    for (uint32_t n = 0; n < level_.size(); ++n) {
      if (!ours_[n]) continue;
      if (find(n) == n) parts.push_back(n);
      members[find(n)].push_back(n);
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [&](uint32_t a, uint32_t b) { return level_[a] > level_[b]; });
    for (const uint32_t part : parts) {
      int highest = INT32_MAX;
      bool touches = false;  // a translated reader at that level
      for (const uint32_t n : members[part]) {
        for (const uint32_t user : users_[n]) {
          if (find(user) == part && ours_[user]) continue;
          const int level = level_[user] - rise(n, user);
          if (level < highest) touches = false;
          highest = std::min(highest, level);
          touches |= level == highest && ours_[user];
        }
      }
      if (!touches) continue;
      for (const uint32_t n : members[part]) level_[n] = highest;
    }
  }

  std::vector<int32_t> number(int min_nodes) {
    std::vector<int> sizes(level_.size());
    for (uint32_t n = 0; n < level_.size(); ++n)
      if (ours_[n]) ++sizes[find(n)];
    std::vector<int32_t> numbers(level_.size(), -1), out(level_.size(), -1);
    int32_t next = 0;
    for (uint32_t n = 0; n < level_.size(); ++n) {
      if (!ours_[n] || sizes[find(n)] < min_nodes) continue;
      int32_t& number = numbers[find(n)];
      if (number < 0) number = next++;
      out[n] = number;
    }
    return out;
  }

  const Symbol& symbol_;
  const std::vector<std::vector<uint32_t>> users_;
  std::vector<char> ours_;
  std::vector<int> level_;
  std::vector<uint32_t> parent_;  // of the disjoint sets of translated nodes
};

}  // namespace

std::vector<int32_t> partition(const Symbol& symbol, const Options& options) {
  return Partition(symbol, options).run(options.min_nodes);
}

}  // namespace tenon::mxnet
