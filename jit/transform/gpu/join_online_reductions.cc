// See join_online_reductions.h.
#include "jit/transform/gpu/join_online_reductions.h"

#include <algorithm>
#include <map>
#include <set>

#include "jit/kernel/builder.h"
#include "jit/kernel/walk.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

class Online {
 public:
  explicit Online(const Kernel& kernel) : k_(kernel) {}

  std::optional<Kernel> run() {
    if (k_.body[0].simd) return std::nullopt;
    k_.names.resize(k_.types.size());
    bool changed = false;
    for (size_t b = 0; b < k_.buffers.size();) {
      const bool gone = k_.buffers[b].role == Buffer::Role::local && compute_anew(static_cast<int>(b));
      changed = changed || gone;
      // A removed local may make an earlier one removable.
      b = gone ? 0 : b + 1;
    }
    while (join_some()) changed = true;
    return changed ? std::optional(std::move(k_)) : std::nullopt;
  }

 private:
  Block& body() { return k_.body[0].body; }

  // ---- statements ----

  KernelBuilder at(Block& block) { return {k_, block}; }

  static bool same(const Stmt& a, const Stmt& b) {
    return a.kind == b.kind && a.op == b.op && a.type == b.type && a.args == b.args && a.buffer == b.buffer &&
           a.address == b.address && a.size == b.size && a.literal.is_int == b.literal.is_int &&
           (a.literal.is_int ? a.literal.i == b.literal.i : a.literal.d == b.literal.d);
  }
  // Whether the statement can be executed again: a scalar, or a load of memory that the kernel does not
  // write.
  bool repeats(const Stmt& s) const {
    if (!s.axes.empty() || s.kind == K::store || s.kind == K::scan) return false;
    return s.kind != K::load || k_.buffers[s.buffer].role == Buffer::Role::in;
  }
  // The statements of a body from which the wanted values are computed.
  static std::vector<const Stmt*> behind(const Block& block, std::set<Ref> wanted) {
    std::vector<const Stmt*> list;
    for (size_t i = block.size(); i-- > 0;) {
      if (!wanted.count(block[i].result)) continue;
      collect_uses(block[i], wanted);
      list.insert(list.begin(), &block[i]);
    }
    return list;
  }
  // Removes unread scalars of a loop.
  static void drop_unread(Stmt& loop) {
    std::set<Ref> wanted(loop.yields.begin(), loop.yields.end());
    for (size_t i = loop.body.size(); i-- > 0;) {
      const Stmt& s = loop.body[i];
      if (s.axes.empty() && s.kind != K::store && !wanted.count(s.result))
        loop.body.erase(loop.body.begin() + static_cast<long>(i));
      else
        collect_uses(s, wanted);
    }
  }
  static bool same_axes(const Stmt& a, const Stmt& b) {
    return a.simd && b.simd && std::ranges::equal(a.axes, b.axes, [](const Axis& x, const Axis& y) {
             return x.extent == y.extent && x.is_whole() && y.is_whole();
           });
  }
  static std::map<Ref, Ref> axes_of(const Stmt& from, const Stmt& to) {
    std::map<Ref, Ref> names;
    for (size_t a = 0; a < from.axes.size(); ++a) names[from.axes[a].var] = to.axes[a].var;
    return names;
  }

  // ---- locals ----

  // Whether the store address gives each iteration of the loop its own element of the local, densely.
  static bool covers(const Stmt& loop, const Address& at) {
    const size_t n = loop.axes.size();
    if (n > 2 || at.size() != n) return false;
    auto has = [&](const Term& t) { return std::ranges::count(at, t) == 1; };
    if (!has({1, -1, loop.axes[n - 1].var})) return false;
    const Extent& row = loop.axes[n - 1].extent;
    return n == 1 || has({row.factor, row.size, loop.axes[0].var});
  }

  // Removes a local that one loop writes and only later loops over the same axes read: these compute the
  // elements again.
  bool compute_anew(int local) {
    const Stmt* writer = nullptr;
    const Stmt* store = nullptr;
    std::vector<std::pair<Stmt*, size_t>> reads;
    for (Stmt& loop : body()) {
      if (loop.buffer == local) return false;
      for (size_t i = 0; i < loop.body.size(); ++i) {
        const Stmt& s = loop.body[i];
        if (find_stmt(s.body, [&](const Stmt& inner) { return inner.buffer == local; })) return false;
        if (s.buffer != local) continue;
        if (s.kind == K::load) {
          if (!writer || &loop == writer) return false;
          reads.emplace_back(&loop, i);
        } else {
          if (writer) return false;
          writer = &loop;
          store = &s;
        }
      }
    }
    if (!writer || !writer->simd || !covers(*writer, store->address)) return false;
    const std::vector<const Stmt*> chain = behind(writer->body, {store->args[0]});
    if (!std::ranges::all_of(chain, [&](const Stmt* s) { return repeats(*s); })) return false;
    for (const auto& [reader, i] : reads) {
      Stmt moved = *store;
      replace_reads(moved, axes_of(*writer, *reader));
      auto sorted = [](Address at) {
        std::ranges::sort(at, {}, [](const Term& t) { return t.var; });
        return at;
      };
      if (!same_axes(*writer, *reader) || sorted(moved.address) != sorted(reader->body[i].address))
        return false;
    }
    // From the last one on, so that positions stay valid.
    for (size_t n = reads.size(); n-- > 0;) {
      const auto& [reader, i] = reads[n];
      std::map<Ref, Ref> names = axes_of(*writer, *reader);
      Block copy;
      for (const Stmt* s : chain) {
        copy.push_back(*s);
        replace_reads(copy.back(), names);
        copy.back().result = names[s->result] = k_.add_ref(k_.types[s->result]);
      }
      const auto to = names.find(store->args[0]);
      const std::map<Ref, Ref> value{
          {reader->body[i].result, to == names.end() ? store->args[0] : to->second}};
      reader->body.erase(reader->body.begin() + static_cast<long>(i));
      reader->body.insert(reader->body.begin() + static_cast<long>(i), copy.begin(), copy.end());
      replace_reads(*reader, value);
    }
    remove(local);
    return true;
  }
  void remove(int local) {
    rewrite(body(), [&](Stmt& s, Block& out) {
      if (s.buffer == local) return;
      if (s.buffer > local) --s.buffer;
      if (is_loop(s)) drop_unread(s);
      if (s.kind != K::loop || !s.body.empty()) out.push_back(std::move(s));
    });
    k_.buffers.erase(k_.buffers.begin() + local);
  }

  // ---- folds that follow another fold ----

  bool join_some() {
    for (size_t i = 0; i < body().size(); ++i)
      for (size_t j = i + 1; j < body().size(); ++j)
        if (join(i, j)) return true;
    return false;
  }
  bool folds(const Stmt& s) const {
    return s.kind == K::reduce && s.simd &&
           std::ranges::all_of(s.body, [&](const Stmt& i) { return repeats(i); });
  }

  // Joins the fold at j into the loop of the fold at i.
  bool join(size_t i, size_t j) {
    const Stmt &lead = body()[i], &late = body()[j];
    if (!folds(lead) || !folds(late) || !same_axes(lead, late)) return false;
    // Statements in between that the late fold reads: those that need the lead fold stay, the others move
    // before it.
    std::set<Ref> needs_lead(lead.results.begin(), lead.results.end()), reads;
    collect_uses(late, reads);
    std::set<size_t> moves;
    for (size_t s = j; s-- > i + 1;) {
      const Stmt& between = body()[s];
      bool read = false;
      each_result(between, [&](Ref r) { read = read || reads.count(r) > 0; });
      if (!read) continue;
      if (!repeats(between)) return false;
      collect_uses(between, reads);
      moves.insert(s);
    }
    for (size_t s = i + 1; s < j; ++s)
      if (moves.count(s) && reads_any(body()[s], needs_lead)) {
        needs_lead.insert(body()[s].result);
        moves.erase(s);
      }
    // One body for both folds. What the lead fold computes is not computed again.
    Stmt joined = lead;
    joined.unroll = 1;
    std::vector<Stmt> known;
    for (size_t s = 0; s < j; ++s)
      if (repeats(body()[s]) && (s < i || moves.count(s))) known.push_back(body()[s]);
    known.insert(known.end(), lead.body.begin(), lead.body.end());
    std::map<Ref, Ref> names = axes_of(late, lead);
    std::set<Ref> follows;  // values in the body that depend on the lead's results
    for (const Stmt& s : late.body) {
      Stmt copy = s;
      replace_reads(copy, names);
      const auto found = std::ranges::find_if(known, [&](const Stmt& other) { return same(copy, other); });
      if (found != known.end()) {
        names[s.result] = found->result;
        continue;
      }
      if (reads_any(copy, needs_lead) || reads_any(copy, follows)) follows.insert(copy.result);
      known.push_back(copy);
      joined.body.push_back(std::move(copy));
    }
    Stmt yields = late;
    yields.body.clear();
    replace_reads(yields, names);
    return finish(i, j, moves, std::move(joined), yields.yields, needs_lead, follows);
  }

  struct Following {
    OpId row = kPlain;
    size_t lead = 0;      // index of the result that it follows
    Ref factor = kNoRef;  // exp
    Ref from = kNoRef;    // square: the value subtracted as the mean
  };

  // How a yield follows the lead loop; nothing if in no known way. Adds the statements that compute the
  // factor to the loop.
  std::optional<Following> following(Stmt& joined, Ref yield, const std::set<Ref>& needs_lead,
                                     const std::set<Ref>& follows) {
    const Stmt* s = definition(joined.body, yield);
    if (!s || s->kind != K::op || !is_float(s->type)) return std::nullopt;
    // Matches x - c, where the lead loop folds x.
    auto distance = [&](Ref r, OpId fold, Following& f) {
      const Stmt* d = definition(joined.body, r);
      if (!d || d->kind != K::op || d->op != ops::sub || !needs_lead.count(d->args[1])) return false;
      f.from = d->args[1];
      for (f.lead = 0; f.lead < joined.combine.size(); ++f.lead)
        if (joined.yields[f.lead] == d->args[0] && joined.combine[f.lead] == fold &&
            (joined.online.empty() || joined.online[f.lead] == kPlain))
          return fold == ops::add || joined.results[f.lead] == f.from;
      return false;
    };
    Following f;
    if (s->op == ops::exp) {
      f.row = ops::exp;
      if (distance(s->args[0], ops::maximum, f)) return f;
    } else if (s->op == ops::square || (s->op == ops::mul && s->args[0] == s->args[1])) {
      f.row = ops::square;
      if (distance(s->args[0], ops::add, f)) return f;
    } else if (s->op == ops::mul || s->op == ops::div) {
      for (size_t side = 0; side < (s->op == ops::mul ? 2 : 1); ++side) {
        const Ref other = s->args[1 - side];
        if (follows.count(other) || needs_lead.count(other)) continue;
        const OpId op = s->op;
        auto inner = following(joined, s->args[side], needs_lead, follows);
        if (!inner || inner->row != ops::exp) return std::nullopt;
        if (op == ops::div && inner->factor == kNoRef)
          inner->factor = at(joined.body).constant(k_.types[other], Scalar::of(1.0));
        inner->factor = inner->factor == kNoRef ? other : at(joined.body).op(op, {inner->factor, other});
        return inner;
      }
    }
    return std::nullopt;
  }

  // Replaces the lead loop by the joined loop.
  bool finish(size_t i, size_t j, const std::set<size_t>& moves, Stmt joined, const std::vector<Ref>& yields,
              const std::set<Ref>& needs_lead, const std::set<Ref>& follows) {
    std::vector<Following> all;
    std::optional<Following> first;
    for (Ref y : yields) {
      all.emplace_back();
      if (!follows.count(y) && !needs_lead.count(y)) continue;
      const auto f = following(joined, y, needs_lead, follows);
      // All follow the same result in the same way. At most one square is allowed.
      if (!f || (first && (f->row != first->row || f->lead != first->lead || f->row == ops::square)))
        return false;
      all.back() = *f;
      if (!first) first = f;
    }
    if (!first) return false;
    if (!joined.online.empty() && (first->lead != 0 || first->row == ops::square)) return false;
    if (joined.online.empty()) joined.online.assign(joined.combine.size(), kPlain);
    if (std::ranges::count(joined.online, ops::square)) return false;
    std::swap(joined.combine[0], joined.combine[first->lead]);
    std::swap(joined.results[0], joined.results[first->lead]);
    std::swap(joined.yields[0], joined.yields[first->lead]);
    const Stmt& late = body()[j];
    Block after;  // replaces the late loop
    for (size_t r = 0; r < yields.size(); ++r) {
      Following& f = all[r];
      joined.combine.push_back(late.combine[r]);
      joined.online.push_back(f.row);
      Ref yield = yields[r], result = late.results[r];
      if (f.row == ops::exp)
        yield = f.factor == kNoRef ? at(joined.body).constant(k_.types[result], Scalar::of(1.0)) : f.factor;
      if (f.row == ops::square) {
        yield = joined.yields[0];
        result = k_.add_ref(k_.types[yield]);
        if (!move_squares(after, joined, j, result, f.from, late.results[r])) result = late.results[r];
      }
      joined.yields.push_back(yield);
      joined.results.push_back(result);
      if (f.row != kPlain && late.combine[r] != ops::add) return false;
    }
    drop_unread(joined);
    Block before, out;  // before: replaces the early loop
    for (size_t m : moves) before.push_back(body()[m]);
    before.push_back(std::move(joined));
    for (size_t s = 0; s < body().size(); ++s) {
      if (s == i) {
        out.insert(out.end(), before.begin(), before.end());
      } else if (s == j) {
        out.insert(out.end(), after.begin(), after.end());
      } else if (!moves.count(s)) {
        out.push_back(std::move(body()[s]));
      }
    }
    body() = std::move(out);
    return true;
  }

  // Converts squared distances from the mean to squared distances from `from`: squares + n * square(sum / n -
  // from), if n is not 0. Does nothing if the kernel already has this quotient and it is `from`.
  bool move_squares(Block& to, const Stmt& fold, size_t before, Ref squares, Ref from, Ref result) {
    const DType type = k_.types[squares];
    KernelBuilder b(k_, to);
    auto find_or_add = [&](Stmt s, DType t) {
      s.type = t;
      for (size_t i = 0; i < before; ++i)
        if (same(body()[i], s)) return body()[i].result;
      return b.add(std::move(s), t);
    };
    auto product = [&](Ref x, Ref y) {
      return x == kNoRef ? y : find_or_add({.kind = K::op, .op = ops::mul, .args = {x, y}}, DType::i64);
    };
    Ref n = kNoRef;
    for (const Axis& a : fold.axes) {
      if (a.extent.size >= 0)
        n = product(n, find_or_add({.kind = K::size, .size = a.extent.size}, DType::i64));
      if (a.extent.size < 0 || a.extent.factor != 1)
        n = product(n,
                    find_or_add({.kind = K::constant, .literal = Scalar::of(a.extent.factor)}, DType::i64));
    }
    n = find_or_add({.kind = K::cast, .args = {n}}, type);
    const Ref mean = find_or_add({.kind = K::op, .op = ops::div, .args = {fold.results[0], n}}, type);
    if (mean == from) return false;
    const Ref far = b.op(ops::sub, {mean, from}), more = b.op(ops::mul, {n, b.op(ops::mul, {far, far})}),
              zero = b.constant(type, Scalar::of(0.0)),
              moved = b.op(ops::where, {b.op(ops::gt, {n, zero}), more, zero});
    to.push_back({.kind = K::op, .op = ops::add, .type = type, .result = result, .args = {squares, moved}});
    return true;
  }

  Kernel k_;
};

}  // namespace

std::optional<Kernel> join_online_reductions(const Kernel& kernel) { return Online(kernel).run(); }

}  // namespace tenon::jit
