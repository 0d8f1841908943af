// See kernel_fission.h.
#include "jit/transform/kernel_fission.h"

#include <algorithm>
#include <set>
#include <span>
#include <unordered_map>

#include "jit/kernel/builder.h"
#include "jit/kernel/walk.h"
#include "jit/transform/kernel_edit.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

// A place to cut: before statement `at` of the par nest or, with `inner`, before statement `inner` of its
// body, so that both halves have the loop.
struct Place {
  size_t at = 0;
  std::optional<size_t> inner;
};

// Whether the statement is cheap: it costs less to execute again than a temporary.
bool is_quick(const Stmt& s, const Kernel& k) {
  switch (s.kind) {
    case K::constant:
    case K::size:
    case K::index:
    case K::cast:
    case K::bitcast: return true;
    case K::load: return k.buffers[s.buffer].role == Buffer::Role::in;
    default: return false;
  }
}

// Number of statements in a statement, without cheap ones and stores.
int weight(const Stmt& s, const Kernel& k) {
  auto counts = [&](const Stmt& inner) { return !is_quick(inner, k) && inner.kind != K::store; };
  int statements = counts(s);
  each_stmt(s.body, [&](const Stmt& inner) { statements += counts(inner); });
  return statements;
}

// Values of statements of one list that the code after the place reads.
struct Crossing {
  std::vector<Stmt> again;  // cheap statements to execute again, in order
  std::vector<Ref> kept;    // passed through temporaries
};

class Fission {
 public:
  Fission(const LoweredKernel& whole, DimTable& dims) : whole_(whole), dims_(dims) {
    const size_t refs = whole_.kernel.types.size();
    slow_.resize(refs);
    list_.resize(refs);
    note(body());
    for (const Stmt& s : body()) note(s.body);
  }

  std::optional<std::pair<LoweredKernel, LoweredKernel>> run(int fewest) {
    const Stmt& par = whole_.kernel.body[0];
    const int all = weight(par, whole_.kernel) - 1;  // without the par nest itself
    if (all < fewest || !can_be_cut()) return std::nullopt;
    std::optional<Place> best;
    int64_t least = 0;
    auto consider = [&](Place place, int before) {
      if (4 * before < all || 4 * (all - before) < all || !allowed(place)) return;
      const int64_t bytes = crossing_bytes(place);
      if (best && bytes >= least) return;
      best = place;
      least = bytes;
    };
    int before = 0;
    auto pass = [&](const Stmt& s) { before += weight(s, whole_.kernel); };
    for (size_t at = 0; at < par.body.size(); ++at) {
      consider({at, {}}, before);
      const Stmt& s = par.body[at];
      const int begun = before;
      const bool plain = std::ranges::none_of(s.body, [](const Stmt& i) { return !i.axes.empty(); });
      for (size_t inner = 1; plain && inner < s.body.size(); ++inner) {
        pass(s.body[inner - 1]);
        consider({at, inner}, before);
      }
      before = begun;
      pass(s);
    }
    if (!best) return std::nullopt;
    return make(*best);
  }
  std::optional<std::pair<LoweredKernel, LoweredKernel>> run_before(size_t statement) {
    const Place place{statement, {}};
    if (!can_be_cut() || !allowed(place)) return std::nullopt;
    return make(place);
  }

 private:
  const Block& body() const { return whole_.kernel.body[0].body; }

  bool can_be_cut() const {
    const Kernel& k = whole_.kernel;
    if (!whole_.sums.empty()) return false;
    auto plain = [](const Axis& a) { return !a.counts_tiles() && a.of == kNoRef; };
    return !find_stmt(k.body, [&](const Stmt& s) {
      return !std::ranges::all_of(s.axes, plain) ||
             (s.kind == K::load && k.buffers[s.buffer].role == Buffer::Role::out);
    });
  }

  // Calls visit(statement, whether it is before the place), also for nested statements. A loop that both
  // halves have is not visited itself.
  template <class Visit>
  void each(const Place& place, const Visit& visit) const {
    auto deep = [&](const Stmt& s, bool first) {
      visit(s, first);
      each_stmt(s.body, [&](const Stmt& inner) { visit(inner, first); });
    };
    for (size_t at = 0; at < body().size(); ++at) {
      const Stmt& s = body()[at];
      if (place.inner && at == place.at)
        for (size_t i = 0; i < s.body.size(); ++i) deep(s.body[i], i < *place.inner);
      else
        deep(s, at < place.at);
    }
  }

  // Whether the place is legal: each local belongs to one half, and outputs that may share memory with an
  // input are written by the second half only.
  bool allowed(const Place& place) const {
    const Kernel& k = whole_.kernel;
    bool written = false;
    std::set<int> locals[2];
    each(place, [&](const Stmt& s, bool first) {
      if (!is_access(s)) return;
      if (k.buffers[s.buffer].role == Buffer::Role::local) locals[first].insert(s.buffer);
      written = written || (first && k.buffers[s.buffer].role == Buffer::Role::out);
    });
    const bool shared = std::ranges::any_of(locals[0], [&](int b) { return locals[1].count(b) > 0; });
    return !shared && !(written && !whole_.inplace.empty());
  }

  // Classifies the statements of the par nest or of one of its loops. A value is cheap if it is computed only
  // from cheap statements of the same list and from values outside the list.
  void note(const Block& list) {
    for (const Stmt& s : list) {
      std::set<Ref> reads;
      collect_uses(s, reads);
      reads_[&s].assign(reads.begin(), reads.end());
      bool slow = !is_quick(s, whole_.kernel);
      for (Ref r : reads) slow = slow || (slow_[r] && list_[r] == &list);
      each_result(s, [&](Ref r) {
        slow_[r] = slow;
        list_[r] = &list;
      });
    }
  }
  using Wanted = std::vector<bool>;  // by Ref
  void want(const Stmt& s, Wanted& wanted) const {
    for (Ref r : reads_.at(&s)) wanted[r] = true;
  }

  // Divides the wanted values of these statements into kept and recomputed ones.
  Crossing crossing(std::span<const Stmt> before, Wanted& wanted) const {
    Crossing c;
    for (size_t i = before.size(); i-- > 0;)
      each_result(before[i], [&](Ref r) {
        if (!wanted[r]) return;
        if (slow_[r]) return c.kept.push_back(r);
        c.again.push_back(before[i]);
        want(before[i], wanted);
      });
    std::ranges::reverse(c.again);
    std::ranges::reverse(c.kept);
    return c;
  }

  struct Halves {
    Crossing inner, outer;
  };
  Halves cross(const Place& place) const {
    Wanted wanted(slow_.size());
    const size_t whole = place.at + (place.inner ? 1 : 0);
    for (const Stmt& s : std::span(body()).subspan(whole)) want(s, wanted);
    Halves h;
    if (place.inner) {
      const Stmt& loop = body()[place.at];
      for (Ref r : loop.yields) wanted[r] = true;
      for (const Stmt& s : std::span(loop.body).subspan(*place.inner)) want(s, wanted);
      h.inner = crossing(std::span(loop.body).first(*place.inner), wanted);
    }
    h.outer = crossing(std::span(body()).first(place.at), wanted);
    return h;
  }
  // Bytes that cross per iteration of the par nest, if inner loops are long.
  int64_t crossing_bytes(const Place& place) const {
    constexpr int64_t kLong = 1024;
    const Halves h = cross(place);
    auto bytes = [&](const Crossing& c) {
      int64_t sum = 0;
      for (Ref r : c.kept) sum += 2 * size_of(whole_.kernel.types[r]);
      for (const Stmt& s : c.again)
        if (s.kind == K::load) sum += size_of(whole_.kernel.buffers[s.buffer].type);
      return sum;
    };
    return bytes(h.outer) + kLong * bytes(h.inner);
  }

  std::optional<std::pair<LoweredKernel, LoweredKernel>> make(const Place& place) {
    const Halves h = cross(place);
    std::vector<Axis> outer = whole_.kernel.body[0].axes, inner = outer;
    if (place.inner) {
      const std::vector<Axis>& loop = body()[place.at].axes;
      inner.insert(inner.end(), loop.begin(), loop.end());
    }
    std::vector<Temp> temps = whole_.temps;
    auto want = [&](const Crossing& c, const std::vector<Axis>& axes) {
      Dim length(1);
      for (const Axis& a : axes) length = dims_.mul(length, dim_of(a.extent, whole_, dims_));
      for (Ref r : c.kept) temps.push_back({whole_.kernel.types[r], length});
      return !dims_.is_overflow(length);
    };
    if (!want(h.outer, outer) || !want(h.inner, inner)) return std::nullopt;
    const size_t count = temps.size() - whole_.temps.size();

    LoweredKernel first = whole_, second = whole_;
    first.kernel.name += "_0";
    second.kernel.name += "_1";
    Stmt &head = first.kernel.body[0], &tail = second.kernel.body[0];
    head.body.resize(place.at + (place.inner ? 1 : 0));
    tail.body.erase(tail.body.begin(), tail.body.begin() + static_cast<long>(place.at));
    if (place.inner) {
      Stmt& begun = head.body.back();
      begun.kind = K::loop;
      begun.unroll = 1;
      begun.combine.clear(), begun.online.clear(), begun.results.clear(), begun.yields.clear();
      begun.body.resize(*place.inner);
      Block& rest = tail.body.front().body;
      rest.erase(rest.begin(), rest.begin() + static_cast<long>(*place.inner));
      rest.insert(rest.begin(), h.inner.again.begin(), h.inner.again.end());
    }
    tail.body.insert(tail.body.begin(), h.outer.again.begin(), h.outer.again.end());
    const int to = add_temps(first, temps, count, Buffer::Role::out),
              from = add_temps(second, temps, count, Buffer::Role::in);
    auto connect = [&](const Crossing& c, int offset, const std::vector<Axis>& axes, Block& stores,
                       Block& loads) {
      for (size_t i = 0; i < c.kept.size(); ++i) {
        const int temp = offset + static_cast<int>(i);
        const Ref r = c.kept[i];
        KernelBuilder(first.kernel, stores).store(to + temp, place_of(first, axes), r);
        loads.insert(loads.begin(), {.kind = K::load,
                                     .type = whole_.kernel.types[r],
                                     .result = r,
                                     .buffer = from + temp,
                                     .address = place_of(second, axes)});
      }
    };
    if (place.inner)
      connect(h.inner, static_cast<int>(h.outer.kept.size()), inner, head.body.back().body,
              tail.body[h.outer.again.size()].body);
    connect(h.outer, 0, outer, head.body, tail.body);
    drop_unused(first);
    drop_unused(second);
    return std::pair(std::move(first), std::move(second));
  }
  // A dense address in the order of the axes.
  Address place_of(LoweredKernel& k, const std::vector<Axis>& axes) const {
    Address at;
    Dim stride(1);
    for (size_t a = axes.size(); a-- > 0;) {
      at.insert(at.begin(), {1, stride == Dim(1) ? -1 : size_argument(k, stride), axes[a].var});
      stride = dims_.mul(stride, dim_of(axes[a].extent, whole_, dims_));
    }
    return at;
  }

  const LoweredKernel& whole_;
  DimTable& dims_;
  std::unordered_map<const Stmt*, std::vector<Ref>> reads_;
  std::vector<bool> slow_;          // by Ref
  std::vector<const Block*> list_;  // by Ref: the list that computes it
};

}  // namespace

std::optional<std::pair<LoweredKernel, LoweredKernel>> kernel_fission(const LoweredKernel& whole,
                                                                      DimTable& dims, int fewest) {
  return Fission(whole, dims).run(fewest);
}

std::optional<std::pair<LoweredKernel, LoweredKernel>> cut_before(const LoweredKernel& whole, DimTable& dims,
                                                                  size_t statement) {
  return Fission(whole, dims).run_before(statement);
}

}  // namespace tenon::jit
