// See join_pieces.h.
#include "jit/transform/cpu/join_pieces.h"

#include <cstdlib>
#include <map>

#include "jit/kernel/walk.h"
#include "jit/schedule/schedule.h"
#include "jit/transform/kernel_edit.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

// More loads and stores than this per iteration need too many registers and streams of memory.
constexpr int kMostAccesses = 16;

bool is_plain_map(const LoweredKernel& k) {
  return !k.writes_again && k.sums.empty() && k.temps.empty() && k.faults.empty() && !has_locals(k.kernel) &&
         !find_stmt(k.kernel.body, [](const Stmt& s) { return s.kind == K::reduce || s.kind == K::scan; });
}

int accesses(const Kernel& k) {
  int count = 0;
  each_stmt(k.body, [&](const Stmt& s) { count += is_access(s); });
  return count;
}

// Appends the statements of one kernel to the loops of another. Values of equal statements are computed once. All
// stores of a block follow its loads, because an output may share memory with an input.
class Joiner {
 public:
  Joiner(LoweredKernel first, const LoweredKernel& second) : joined_(std::move(first)), second_(second) {}

  std::optional<LoweredKernel> run() {
    if (accesses(joined_.kernel) + accesses(second_.kernel) > kMostAccesses) return std::nullopt;
    for (size_t b = 0; b < second_.buffers.size(); ++b)
      if (!take_buffer(b)) return std::nullopt;
    for (Dim size : second_.sizes) sizes_.push_back(size_argument(joined_, size));
    if (!join(joined_.kernel.body, second_.kernel.body)) return std::nullopt;
    if (!shares_ && !stores_beside_) return std::nullopt;
    // An input stays one that may share memory if each kernel that reads it reads only what it writes itself.
    std::erase_if(joined_.inplace,
                  [&](ValueId v) { return second_.uses(v) && !std::ranges::count(second_.inplace, v); });
    for (ValueId v : second_.inplace)
      if (only_in_second_.count(v)) joined_.inplace.push_back(v);
    return std::move(joined_);
  }

 private:
  // False if one kernel reads what the other writes.
  bool take_buffer(size_t b) {
    const Buffer& buffer = second_.kernel.buffers[b];
    const auto known = std::ranges::find(joined_.buffers, second_.buffers[b]);
    buffers_.push_back(static_cast<int>(known - joined_.buffers.begin()));
    if (known != joined_.buffers.end())
      return joined_.kernel.buffers[static_cast<size_t>(buffers_.back())].role == buffer.role;
    only_in_second_.insert(std::get<ValueId>(second_.buffers[b]));
    joined_.buffers.push_back(second_.buffers[b]);
    joined_.kernel.buffers.push_back(buffer);
    joined_.kernel.buffers.back().name = free_name(buffer.name.substr(0, 1));
    return true;
  }
  std::string free_name(const std::string& letter) const {
    size_t number = joined_.kernel.buffers.size() - 1;
    const auto is_taken = [&](const Buffer& b) { return b.name == letter + std::to_string(number); };
    while (std::ranges::any_of(joined_.kernel.buffers, is_taken)) ++number;
    return letter + std::to_string(number);
  }

  Extent renamed(Extent e) const {
    if (e.size >= 0) e.size = sizes_[static_cast<size_t>(e.size)];
    return e;
  }
  Ref renamed(Ref r) const { return refs_.at(r); }
  void rename(Stmt& s) const {
    if (s.buffer >= 0) s.buffer = buffers_[static_cast<size_t>(s.buffer)];
    if (s.size >= 0) s.size = sizes_[static_cast<size_t>(s.size)];
    for (Term& t : s.address)
      if (t.size >= 0) t.size = sizes_[static_cast<size_t>(t.size)];
    each_read(s, [&](Ref& r) { r = renamed(r); });
  }

  bool join_loops(Stmt& to, const Stmt& from) {
    if (to.kind != from.kind || to.simd != from.simd || to.axes.size() != from.axes.size()) return false;
    for (size_t i = 0; i < to.axes.size(); ++i) {
      const Axis &a = to.axes[i], &b = from.axes[i];
      const Ref of = b.of == kNoRef ? kNoRef : renamed(b.of);
      if (a.extent != renamed(b.extent) || a.by != renamed(b.by) || a.of != of) return false;
      refs_[b.var] = a.var;
    }
    if (to.simd) lanes_ = to.axes.back().var;
    return join(to.body, from.body);
  }

  // A block has statements and then at most one loop.
  bool join(Block& to, const Block& from) {
    const auto before_loop = [](const Block& b) {
      return static_cast<size_t>(std::ranges::find_if(b, is_loop) - b.begin());
    };
    const size_t of_first = before_loop(to), of_second = before_loop(from), loops = to.size() - of_first;
    if (loops > 1 || from.size() - of_second != loops) return false;
    Block block(to.begin(), to.begin() + static_cast<long>(of_first)), stores;
    std::erase_if(block, [&](Stmt& s) {
      if (s.kind == K::store) stores.push_back(s);
      return s.kind == K::store;
    });
    if (loops == 1 && !stores.empty()) return false;
    for (size_t i = 0; i < of_second; ++i) {
      Stmt s = from[i];
      rename(s);
      if (s.kind == K::store) {
        if (loops == 1) return false;
        stores_beside_ =
            stores_beside_ || std::ranges::any_of(stores, [&](const Stmt& old) { return is_beside(old, s); });
        stores.push_back(std::move(s));
        continue;
      }
      s.result = kNoRef;
      const auto known = std::ranges::find_if(block, [&](const Stmt& old) { return computes_same(old, s); });
      if (known != block.end()) {
        refs_[from[i].result] = known->result;
        shares_ = shares_ || (s.kind == K::load && lanes_ != kNoRef && steps_along(s, lanes_));
        continue;
      }
      s.result = refs_[from[i].result] = joined_.kernel.add_ref(second_.kernel.types[from[i].result]);
      block.push_back(std::move(s));
    }
    append(block, std::move(stores));
    if (loops == 1) {
      block.push_back(std::move(to.back()));
      if (!join_loops(block.back(), from.back())) return false;
    }
    to = std::move(block);
    return true;
  }

  // Whether one store writes elements between those that the lanes of the other write, so that both write to the same lines of memory.
  bool is_beside(const Stmt& a, const Stmt& b) const {
    const SplitAddress first = split_constants(a.address), second = split_constants(b.address);
    if (a.buffer != b.buffer || lanes_ == kNoRef || first.terms != second.terms) return false;
    const auto step = std::ranges::find(first.terms, lanes_, &Term::var);
    return step != first.terms.end() && step->size < 0 && step->factor <= kWideStride &&
           std::abs(first.constant - second.constant) < step->factor;
  }

  LoweredKernel joined_;
  const LoweredKernel& second_;
  std::vector<int> buffers_, sizes_;  // of the second kernel -> of the joined one
  std::map<Ref, Ref> refs_;
  std::set<ValueId> only_in_second_;
  Ref lanes_ = kNoRef;          // variable of the loop that runs across lanes
  bool shares_ = false;         // whether both kernels load the same elements
  bool stores_beside_ = false;  // whether they store elements beside each other
};

}  // namespace

std::vector<LoweredKernel> join_pieces(std::vector<LoweredKernel> kernels) {
  std::vector<LoweredKernel> result;
  for (LoweredKernel& k : kernels) {
    if (!result.empty() && is_plain_map(result.back()) && is_plain_map(k))
      if (auto joined = Joiner(result.back(), k).run()) {
        result.back() = std::move(*joined);
        continue;
      }
    result.push_back(std::move(k));
  }
  return result;
}

}  // namespace tenon::jit
