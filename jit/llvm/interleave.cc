// The part of LaneEmitter for stores that fill a stretch of memory together: each of n stores writes every n-th element, as the parts of
// a concatenation along an innermost axis of n elements do. Their vectors are interleaved in registers and stored whole.
// Tested by tests/unit/jit/llvm/emit_test.cc.
#include <map>

#include "jit/kernel/walk.h"
#include "jit/llvm/emit_lanes.h"

namespace tenon::jit {
namespace {

constexpr size_t kMostInterleaved = 4;  // n vectors take n * (n - 1) permutations

// The stores of a block into one buffer in runs of neighbours, each in the order of its elements, if the block does not read the buffer.
std::vector<std::vector<const Stmt*>> runs_of_neighbours(const Block& block, int buffer) {
  using Store = std::pair<int64_t, const Stmt*>;  // by the constant of its address
  std::map<Address, std::vector<Store>> stores;   // by the other terms
  int accesses = 0;
  each_stmt(block, [&](const Stmt& s) { accesses += is_access(s) && s.buffer == buffer; });
  for (const Stmt& s : block)
    if (s.kind == Stmt::Kind::store && s.buffer == buffer) {
      auto [terms, constant] = split_constants(s.address);
      stores[std::move(terms)].emplace_back(constant, &s);
      --accesses;
    }
  if (accesses > 0) return {};  // loads, or stores of inner loops
  std::vector<std::vector<const Stmt*>> runs;
  for (auto& [terms, run] : stores) {
    std::ranges::sort(run, {}, &Store::first);
    bool dense = run.size() >= 2 && run.size() <= kMostInterleaved;
    for (size_t i = 1; i < run.size(); ++i) dense = dense && run[i].first == run[i - 1].first + 1;
    if (!dense) continue;
    runs.emplace_back();
    for (const Store& s : run) runs.back().push_back(s.second);
  }
  return runs;
}

}  // namespace

void LaneEmitter::find_neighbours() {
  std::set<std::pair<const Stmt*, int>> seen;  // loop, buffer
  each_stmt(k_.body, [&](const Stmt& s, const Around& around) {
    if (s.kind != Stmt::Kind::store || !around.simd || !seen.insert({around.loop, s.buffer}).second) return;
    for (const std::vector<const Stmt*>& run : runs_of_neighbours(around.loop->body, s.buffer))
      for (size_t i = 0; i < run.size(); ++i) neighbours_[run[i]] = {run[0], i, run.size()};
  });
}

bool LaneEmitter::store_with_neighbours(const Stmt& s, const Place& p, const std::string& bits) {
  const auto found = neighbours_.find(&s);
  if (found == neighbours_.end() || simd_.masked) return false;
  const auto [first, position, count] = found->second;
  if (!p.stride.is(static_cast<int64_t>(count))) return false;
  const std::string key = simd_.base.text;  // of one vector among several that are computed at once
  Together& together = together_[{first, key}];
  together.vectors.resize(count);
  together.vectors[position] = bits;
  if (position == 0) together.pointer = p.pointer;
  if (std::ranges::any_of(together.vectors, &std::string::empty)) return true;  // the last one stores all
  const DType dtype = k_.buffers[s.buffer].type;
  const std::string type(memory_type(dtype)), wide = at_lanes(type, w_);
  const int n = static_cast<int>(count);
  for (int v = 0; v < n; ++v) {
    std::string all = together.vectors[0];
    for (int i = 1; i < n; ++i)
      all = shuffle(
          wide, all, together.vectors[static_cast<size_t>(i)], w_,
          [&](int l) {
            const int element = v * w_ + l, part = element % n;
            return part == i ? w_ + element / n : i == 1 && part == 0 ? element / n : l;
          },
          "mixed");
    f_.statement("store " + wide + " " + all + ", ptr " +
                 offset_pointer(type, together.pointer, int64_t{v} * w_) + ", align " +
                 std::to_string(size_of(dtype)));
  }
  together_.erase({first, key});
  return true;
}

}  // namespace tenon::jit
