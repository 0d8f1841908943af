// See unroll_short_loops.h.
#include "jit/transform/cpu/unroll_short_loops.h"

#include <optional>

#include "jit/kernel/builder.h"
#include "jit/kernel/walk.h"
#include "jit/schedule/schedule.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

// More statements take longer to compile than they save.
constexpr int64_t kMostStatements = 64;

// The iterations of an axis, if these are known.
std::optional<int64_t> iterations(const Axis& axis, const Dims& sizes) {
  if (!axis.is_whole()) return std::nullopt;
  if (axis.extent.size < 0) return axis.extent.factor;
  const Dim size = sizes[static_cast<size_t>(axis.extent.size)];
  return size.is_const() ? std::optional(axis.extent.factor * size.value()) : std::nullopt;
}

// Whether iterations of the loop access the elements between those of the lanes: loads of an iteration find them in registers, and stores
// of all iterations fill whole vectors.
bool reaches_between_lanes(const Stmt& loop, int64_t count, Ref lanes) {
  return std::ranges::any_of(loop.body, [&](const Stmt& s) {
    if (loop.kind == K::reduce) return s.kind == K::load && steps_along(s, lanes) && !steps_by(s, lanes, 1);
    return s.kind == K::store && steps_by(s, lanes, count) && steps_by(s, loop.axes.back().var, 1);
  });
}

// Writes the loops of a block across lanes as statements.
class Unroller {
 public:
  Unroller(Kernel& kernel, const Dims& sizes, Ref lanes) : k_(kernel), sizes_(sizes), lanes_(lanes) {}

  void run(Block& block) {
    for (Stmt& s : block) {
      replace_reads(s, renamed_);
      if (is_loop(s) && !s.simd && is_short(s))
        unroll(s);
      else
        add(std::move(s));
    }
    append(out_, std::move(stores_));
    block = std::move(out_);
  }

 private:
  // Whether the loop is to be unrolled. Fills counts_.
  bool is_short(const Stmt& loop) {
    counts_.clear();
    int64_t all = 1, accesses = 0;
    for (const Axis& a : loop.axes) {
      const auto count = iterations(a, sizes_);
      if (!count || *count < 1 || *count > kMostUnrolled) return false;
      counts_.push_back(*count);
      all *= *count;
    }
    for (const Stmt& s : loop.body) {
      if (is_loop(s) || s.kind == K::scan || s.kind == K::index) return false;
      accesses += is_access(s);
    }
    return reaches_between_lanes(loop, counts_.back(), lanes_) && loop.online.empty() &&
           all * accesses <= kMostUnrolled && all * static_cast<int64_t>(loop.body.size()) <= kMostStatements;
  }

  void unroll(const Stmt& loop) {
    std::map<Ref, int64_t> at;
    for (const Axis& a : loop.axes) at[a.var] = 0;
    KernelBuilder b(k_, out_);
    std::vector<Ref> folded;
    for (size_t r = 0; r < loop.results.size(); ++r) {
      const DType type = k_.types[loop.results[r]];
      folded.push_back(b.constant(type, *combine_identity(loop.combine[r], type)));
    }
    do {
      for (Stmt s : loop.body) {
        replace_reads(s, renamed_);
        s.address = fixed(s.address, at);
        add(std::move(s), /*again=*/true);
      }
      for (size_t r = 0; r < folded.size(); ++r) {
        const auto named = renamed_.find(loop.yields[r]);
        folded[r] =
            b.op(loop.combine[r], {folded[r], named == renamed_.end() ? loop.yields[r] : named->second});
      }
    } while (advance(loop, at));
    for (size_t r = 0; r < folded.size(); ++r) renamed_[loop.results[r]] = folded[r];
  }

  // Goes on to the next iteration. False: there is none.
  bool advance(const Stmt& loop, std::map<Ref, int64_t>& at) const {
    for (size_t a = counts_.size(); a-- > 0;) {
      int64_t& position = at[loop.axes[a].var];
      if (++position < counts_[a]) return true;
      position = 0;
    }
    return false;
  }

  // The address with the variables of `at` replaced by their values.
  static Address fixed(const Address& address, const std::map<Ref, int64_t>& at) {
    Address terms;
    for (Term t : address) {
      if (const auto position = at.find(t.var); position != at.end())
        t = {t.factor * position->second, t.size, kNoRef};
      if (t.factor != 0) terms.push_back(t);
    }
    auto [variable, constant] = split_constants(terms);
    if (constant != 0) variable.push_back({constant, -1, kNoRef});
    return variable;
  }

  // Appends the statement, unless one before it computes the same. again: its value gets another name, because each iteration has one.
  void add(Stmt s, bool again = false) {
    if (s.kind == K::store) return stores_.push_back(std::move(s));
    if (s.result == kNoRef) return out_.push_back(std::move(s));
    const auto known = std::ranges::find_if(out_, [&](const Stmt& old) { return computes_same(old, s); });
    if (known != out_.end()) {
      renamed_[s.result] = known->result;
      return;
    }
    if (again) s.result = renamed_[s.result] = k_.add_ref(k_.types[s.result]);
    out_.push_back(std::move(s));
  }

  Kernel& k_;
  const Dims& sizes_;
  const Ref lanes_;
  std::vector<int64_t> counts_;  // the iterations of each axis of the loop at hand
  std::map<Ref, Ref> renamed_;
  Block out_, stores_;
};

// Whether the block loads elements that it stores. Its stores must stay where they are.
bool loads_stored(const Block& block) {
  std::set<int> loaded, stored;
  each_stmt(block, [&](const Stmt& s) {
    if (is_access(s)) (s.kind == K::load ? loaded : stored).insert(s.buffer);
  });
  return std::ranges::any_of(stored, [&](int b) { return loaded.count(b) > 0; });
}

}  // namespace

Kernel unroll_short_loops(Kernel kernel, const Dims& sizes) {
  each_stmt(kernel.body, [&](Stmt& s, const Around& around) {
    const bool lanes = s.simd && !around.simd && (s.kind == K::par || s.kind == K::loop);
    if (lanes && std::ranges::any_of(s.body, is_loop) && !loads_stored(s.body))
      Unroller(kernel, sizes, s.axes.back().var).run(s.body);
  });
  return kernel;
}

}  // namespace tenon::jit
