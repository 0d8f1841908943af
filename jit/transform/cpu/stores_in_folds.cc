// See stores_in_folds.h.
#include "jit/transform/cpu/stores_in_folds.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "jit/kernel/walk.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

// A loop over single elements, and its statements by their results.
struct Walk {
  const Stmt& loop;
  std::map<Ref, const Stmt*> made = {};

  explicit Walk(const Stmt& s) : loop(s) {
    for (const Stmt& i : s.body)
      if (i.result != kNoRef) made[i.result] = &i;
  }
  const Stmt* maker(Ref r) const {
    const auto found = made.find(r);
    return found == made.end() ? nullptr : found->second;
  }
};

// Whether values of two walks, whose bodies have no loops, are equal in the same iteration.
class Equal {
 public:
  Equal(const Walk& a, const Walk& b) : a_(a), b_(b) {}

  bool operator()(Ref x, Ref y) {
    const Stmt *p = a_.maker(x), *q = b_.maker(y);
    if (!p || !q) return !p && !q && (x == y || is_same_variable(x, y));
    const auto [found, is_new] = known_.try_emplace({x, y}, false);
    if (is_new) found->second = same(*p, *q);
    return found->second;
  }

 private:
  bool is_same_variable(Ref x, Ref y) const { return x == a_.loop.axes[0].var && y == b_.loop.axes[0].var; }
  bool same(const Stmt& p, const Stmt& q) {
    if (p.kind != q.kind || p.op != q.op || p.type != q.type || p.fault != 0 || q.fault != 0 ||
        p.literal != q.literal || p.buffer != q.buffer || p.size != q.size)
      return false;
    const auto terms = [&](const Term& s, const Term& t) {
      return s.factor == t.factor && s.size == t.size &&
             (s.var == kNoRef || t.var == kNoRef ? s.var == t.var : (*this)(s.var, t.var));
    };
    return std::ranges::equal(p.args, q.args, std::ref(*this)) &&
           std::ranges::equal(p.address, q.address, terms);
  }

  const Walk &a_, &b_;
  std::map<std::pair<Ref, Ref>, bool> known_;
};

class StoresInFolds {
 public:
  explicit StoresInFolds(LoweredKernel kernel) : lowered_(std::move(kernel)), kernel_(lowered_.kernel) {}

  LoweredKernel run() {
    if (kernel_.body.size() != 1 || !kernel_.body[0].simd || has_locals(kernel_)) return std::move(lowered_);
    Block& body = kernel_.body[0].body;
    for (Stmt& fold : body)
      for (Stmt& loop : body)
        if (fold.kind == K::reduce && loop.kind == K::loop && run_alike(fold, loop)) move_stores(loop, fold);
    std::erase_if(body, [](const Stmt& s) { return s.kind == K::loop && s.body.empty(); });
    return std::move(lowered_);
  }

 private:
  // Whether both run along the same axis, so that split_reduction can cut the fold, and have no loops inside.
  static bool run_alike(const Stmt& a, const Stmt& b) {
    const auto same = [](const Axis& x, const Axis& y) {
      return x.extent == y.extent && x.by == y.by && x.of == y.of;
    };
    const auto is_plain = [](const Stmt& s) { return s.axes.empty() && s.kind != K::scan; };
    return a.axes.size() == 1 && std::ranges::equal(a.axes, b.axes, same) &&
           std::ranges::all_of(a.body, is_plain) && std::ranges::all_of(b.body, is_plain);
  }

  // Moves stores of values that both compute from the loop to the reduction, unless the loop needs these values for others.
  void move_stores(Stmt& loop, Stmt& fold) {
    Stmt rest = loop;
    Block moved;
    std::set<Ref> values;
    const Walk stores(loop), folds(fold);
    Equal equal(stores, folds);
    std::erase_if(rest.body, [&](const Stmt& s) {
      if (s.kind != K::store || !is_computed(stores.maker(s.args[0]))) return false;
      const auto found =
          std::ranges::find_if(folds.made, [&](const auto& m) { return equal(s.args[0], m.first); });
      if (found == folds.made.end() || reads_values(stores, s)) return false;
      Stmt store = s;
      store.args[0] = found->first;
      for (Term& t : store.address)
        if (t.var == loop.axes[0].var) t.var = fold.axes[0].var;
      moved.push_back(std::move(store));
      values.insert(s.args[0]);
      return true;
    });
    drop_dead(rest.body);
    if (moved.empty() ||
        std::ranges::any_of(rest.body, [&](const Stmt& s) { return values.count(s.result) > 0; }))
      return;
    loop = std::move(rest);
    append(fold.body, std::move(moved));
    lowered_.inplace.clear();
  }
  static bool is_computed(const Stmt* s) { return s && s->kind != K::load && s->kind != K::constant; }
  // Whether the place of the store depends on values.
  static bool reads_values(const Walk& walk, const Stmt& store) {
    return std::ranges::any_of(store.address, [&](const Term& t) { return walk.maker(t.var) != nullptr; });
  }
  static void drop_dead(Block& body) {
    std::set<Ref> used;
    for (size_t i = body.size(); i-- > 0;) {
      const Stmt& s = body[i];
      if (s.result != kNoRef && !used.count(s.result) && s.fault == 0)
        body.erase(body.begin() + static_cast<long>(i));
      else
        each_read(s, [&](Ref r) { used.insert(r); });
    }
  }

  LoweredKernel lowered_;
  Kernel& kernel_;
};

}  // namespace

LoweredKernel stores_in_folds(LoweredKernel kernel) { return StoresInFolds(std::move(kernel)).run(); }

}  // namespace tenon::jit
