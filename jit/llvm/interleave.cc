// The part of LaneEmitter for stores that fill a stretch of memory together: each of n stores writes every n-th element, as the parts of
// a concatenation along an innermost axis of n elements do. Their vectors are interleaved in registers and stored whole.
// Tested by tests/unit/jit/llvm/emit_test.cc.
#include "jit/kernel/walk.h"
#include "jit/llvm/emit_lanes.h"

namespace tenon::jit {
namespace {

constexpr size_t kMostInterleaved = 4;  // n vectors take n * (n - 1) permutations

bool is_constant(const Term& t) { return t.var == kNoRef && t.size < 0; }

Address without_constants(Address address) {
  std::erase_if(address, is_constant);
  return address;
}

int64_t constant_of(const Address& address) {
  int64_t sum = 0;
  for (const Term& t : address)
    if (is_constant(t)) sum += t.factor;
  return sum;
}

// The stores of a block into one buffer, in the order of their elements, if these are neighbours and the block does not read the buffer;
// otherwise none.
std::vector<const Stmt*> neighbours(const Block& block, int buffer) {
  std::vector<const Stmt*> found;
  for (const Stmt& s : block)
    if (s.kind == Stmt::Kind::store && s.buffer == buffer) found.push_back(&s);
  const Stmt* other = find_stmt(block, [&](const Stmt& s) {
    return is_access(s) && s.buffer == buffer && !std::ranges::count(found, &s);
  });
  if (other || found.size() < 2 || found.size() > kMostInterleaved) return {};
  std::ranges::sort(found, {}, [](const Stmt* s) { return constant_of(s->address); });
  for (size_t i = 1; i < found.size(); ++i)
    if (without_constants(found[i]->address) != without_constants(found[0]->address) ||
        constant_of(found[i]->address) != constant_of(found[0]->address) + static_cast<int64_t>(i))
      return {};
  return found;
}

}  // namespace

void LaneEmitter::find_neighbours() {
  std::set<std::pair<const Stmt*, int>> seen;  // loop, buffer
  each_stmt(k_.body, [&](const Stmt& s, const Around& around) {
    if (s.kind != Stmt::Kind::store || !around.simd || !seen.insert({around.loop, s.buffer}).second) return;
    const std::vector<const Stmt*> found = neighbours(around.loop->body, s.buffer);
    for (size_t i = 0; i < found.size(); ++i) neighbours_[found[i]] = {found[0], i, found.size()};
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
