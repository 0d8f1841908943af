// See tile.h.
#include "jit/transform/tile.h"

#include <algorithm>
#include <map>
#include <set>

#include "jit/kernel/builder.h"
#include "jit/kernel/walk.h"
#include "jit/schedule/schedule.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

// Cuts the body of the simd par axis where its loops begin and end. The statements between two cuts become a
// loop over the columns of a tile, and a loop over rows gets such a loop inside. A value that one piece
// computes for another goes through a local.
class Columns {
 public:
  explicit Columns(Kernel kernel) : k_(std::move(kernel)) {}

  Kernel run() {
    Stmt par = std::move(k_.body[0]);
    column_ = par.axes.back().var;
    par.axes.back().var = tile_ = at(out_).variable("t");
    par.axes.back().by = {kColumnTile};
    par.simd = false;
    for (const Stmt& s : par.body) {
      if (s.kind == K::reduce || reads_any(s, {column_}) || reads_any(s, varies_))
        each_result(s, [&](Ref r) { varies_.insert(r); });
    }
    for (Stmt& s : par.body) {
      if (is_loop(s)) {
        flush();
        s.kind == K::reduce ? add_reduce(std::move(s)) : add_loop(std::move(s));
      } else if (s.kind == K::store || varies_.count(s.result)) {
        piece_.push_back(std::move(s));
      } else {
        out_.push_back(std::move(s));
      }
    }
    flush();
    share();
    par.body = std::move(out_);
    k_.body[0] = std::move(par);
    return std::move(k_);
  }

 private:
  KernelBuilder at(Block& block) { return {k_, block}; }
  Address here(Ref column) const { return {Term{1, -1, column}, Term{-kColumnTile, -1, tile_}}; }

  // for simd %c in %t { body }: the columns of the tile.
  Stmt over_columns(Block body) {
    Stmt loop{.kind = K::loop,
              .axes = {{.var = at(body).variable("c"), .of = tile_}},
              .simd = true,
              .body = std::move(body)};
    replace_reads(loop, {{column_, loop.axes[0].var}});
    return loop;
  }
  void flush() {
    if (piece_.empty()) return;
    out_.push_back(over_columns(std::move(piece_)));
    piece_.clear();
  }
  void add_loop(Stmt loop) {
    Block body;
    body.push_back(over_columns(std::move(loop.body)));
    loop.body = std::move(body);
    out_.push_back(std::move(loop));
  }

  int local(DType type) {
    k_.buffers.push_back(
        {Buffer::Role::local, type, "c" + std::to_string(k_.buffers.size()), {kColumnTile, -1}});
    return static_cast<int>(k_.buffers.size() - 1);
  }
  Ref load(Block& block, int buffer, Ref column) { return at(block).load(buffer, here(column)); }
  void store(Block& block, int buffer, Ref value, Ref column) {
    at(block).store(buffer, here(column), value);
  }
  void fold(Block& block, OpId combine, int into, Ref value) {
    const Ref old = load(block, into, column_);
    store(block, into, at(block).op(combine, {old, value}), column_);
  }

  void add_reduce(Stmt reduce) {
    const size_t results = reduce.results.size();
    bool rounds = false;
    std::vector<int> sums, parts;
    std::vector<Ref> identities;
    for (size_t r = 0; r < results; ++r) {
      const DType type = k_.types[reduce.results[r]];
      rounds = rounds || (is_float(type) && (reduce.combine[r] == ops::add || reduce.combine[r] == ops::mul));
      identities.push_back(at(out_).constant(type, *combine_identity(reduce.combine[r], type)));
      sums.push_back(local(type));
    }
    for (size_t r = 0; r < results; ++r)
      parts.push_back(rounds ? local(k_.types[reduce.results[r]]) : sums[r]);
    auto clear = [&](const std::vector<int>& buffers) {
      Block body;
      for (size_t r = 0; r < results; ++r) store(body, buffers[r], identities[r], column_);
      return over_columns(std::move(body));
    };

    // Adds the rows of a block to the sum of the block, a few rows at a time if this is cheaper than a load
    // and a store for each row.
    const Axis rows = reduce.axes.back();
    const Axis block{at(out_).variable("b"), rows.extent, {kRowsPerBlock}, rows.of};
    const std::vector<OpId> combine = reduce.combine;
    const std::vector<Ref> named = reduce.results;
    const int64_t together = rows_per_visit(reduce.body.size());
    Axis visit = rows;
    Stmt outer{.kind = K::loop, .axes = reduce.axes};
    outer.axes.pop_back();
    Block body;
    std::vector<Ref> folded = reduce.yields;
    if (together > 1) {
      visit.var = at(body).variable("r");
      visit.by = {together};
      for (size_t r = 0; r < results; ++r) folded[r] = k_.add_ref(k_.types[named[r]]);
      reduce.results = folded;
      reduce.axes = {{.var = rows.var, .of = visit.var}};
      body.push_back(std::move(reduce));
    } else {
      body = std::move(reduce.body);
    }
    if (rounds) visit.extent = {}, visit.of = block.var;
    for (size_t r = 0; r < results; ++r) fold(body, combine[r], parts[r], folded[r]);
    Block inside;
    inside.push_back(over_columns(std::move(body)));

    out_.push_back(clear(sums));
    if (!rounds) {
      outer.axes.push_back(visit);
      outer.body = std::move(inside);
    } else {
      outer.axes.push_back(block);
      outer.body.push_back(clear(parts));
      outer.body.push_back({.kind = K::loop, .axes = {visit}, .body = std::move(inside)});
      Block total;
      for (size_t r = 0; r < results; ++r) fold(total, combine[r], sums[r], load(total, parts[r], column_));
      outer.body.push_back(over_columns(std::move(total)));
    }
    out_.push_back(std::move(outer));
    for (size_t r = 0; r < results; ++r) shared_[named[r]] = sums[r];
  }

  // Values that a piece reads but does not define come from locals, which the defining piece fills.
  void share() {
    std::vector<Stmt*> pieces;
    each_stmt(out_, [&](Stmt& s, const Around& around) {
      if (s.simd && !around.simd) pieces.push_back(&s);
    });
    std::map<Ref, Stmt*> defined;
    for (Stmt* p : pieces)
      for (const Stmt& s : p->body) each_result(s, [&](Ref r) { defined[r] = p; });
    for (Stmt* p : pieces) {
      std::set<Ref> uses;
      collect_uses(*p, uses);
      const Ref column = p->axes[0].var;
      Block loads;
      std::map<Ref, Ref> renamed;
      for (Ref r : uses) {
        if (!varies_.count(r) || r == column) continue;
        auto from = defined.find(r);
        if (from != defined.end() && from->second == p) continue;
        if (from == defined.end() && !shared_.count(r)) continue;  // defined in the piece's own inner loops
        if (!shared_.count(r)) {
          shared_[r] = local(k_.types[r]);
          store(from->second->body, shared_[r], r, from->second->axes[0].var);
        }
        renamed[r] = load(loads, shared_[r], column);
      }
      replace_reads(*p, renamed);
      append(loads, std::move(p->body));
      p->body = std::move(loads);
    }
  }

  Kernel k_;
  Ref column_ = kNoRef, tile_ = kNoRef;
  std::set<Ref> varies_;       // values of the par level that differ between columns
  std::map<Ref, int> shared_;  // locals of shared values
  Block piece_, out_;
};

// The extent of an axis. For an axis within a tile: kNarrow, which does not count as narrow.
Dim known(const Axis& a, const Dims& sizes) {
  if (a.of != kNoRef) return Dim(kNarrow);
  return a.extent.size < 0 ? Dim(a.extent.factor) : sizes[a.extent.size];
}

// The par axis along which the access steps by one while it jumps from lane to lane. -1: there is none.
int crossing_axis(const Stmt& par, const Stmt& s, Ref lane) {
  auto steps_by_one = [&](Ref var) {
    return std::ranges::any_of(s.address, [&](const Term& t) { return t == Term{1, -1, var}; });
  };
  if (!steps_along(s, lane) || steps_by_one(lane)) return -1;
  for (size_t a = 0; a < par.axes.size(); ++a)
    if (steps_by_one(par.axes[a].var)) return static_cast<int>(a);
  return -1;
}

// Runs the rows of a par nest in tiles. Accesses that walk along a row in long steps, and step by one from row to row, go through locals: a
// copy fills the local of a load before the rows of a tile run, and another empties the local of a store behind them.
class Rows {
 public:
  Rows(Kernel kernel, const Dims& sizes) : k_(std::move(kernel)), sizes_(sizes) {}

  Kernel run() {
    for (Stmt& loop : k_.body[0].body)
      if (is_loop(loop) && loop.axes.size() == 1 && loop.axes[0].of == kNoRef && !loop.axes[0].counts_tiles())
        for (Stmt& s : loop.body) add(s, loop.axes[0]);
    if (crossing_.empty()) return std::move(k_);

    Stmt& par = k_.body[0];
    Axis& axis = par.axes[static_cast<size_t>(across_)];
    row_ = axis.var;
    axis = {KernelBuilder(k_, par.body).variable("t"), axis.extent, {kTransposeAcross}};
    tile_ = axis.var;
    Block body, last;
    for (Crossing& c : crossing_) {
      c.local = static_cast<int>(k_.buffers.size());
      const Buffer& buffer = k_.buffers[static_cast<size_t>(c.buffer)];
      const bool loads = buffer.role == Buffer::Role::in;
      k_.buffers.push_back({Buffer::Role::local,
                            buffer.type,
                            "r" + std::to_string(c.local),
                            {kTransposeAcross * c.length.factor, c.length.size}});
      copy(loads ? body : last, c, loads);
      for (auto& [access, along] : c.accesses) access->buffer = c.local, access->address = in_local(c, along);
    }
    body.push_back({.kind = K::loop, .axes = {{.var = row_, .of = tile_}}, .body = std::move(par.body)});
    append(body, std::move(last));
    par.body = std::move(body);
    return std::move(k_);
  }

 private:
  struct Crossing {
    int buffer;
    Address start;                                     // of the row
    Term step;                                         // along the row, without the variable
    Extent length;                                     // of the row
    std::vector<std::pair<Stmt*, Ref>> accesses = {};  // and the variable along the row
    int local = -1;
  };

  // Notes the access if it crosses the rows and reads an input or is the only access of an output.
  void add(Stmt& s, const Axis& along) {
    const Stmt& par = k_.body[0];
    const int across = is_access(s) ? crossing_axis(par, s, along.var) : -1;
    if (across < 0 || (across_ >= 0 && across != across_) ||
        !tiles_transposed(known(par.axes[static_cast<size_t>(across)], sizes_), known(along, sizes_)))
      return;
    const Buffer::Role role = k_.buffers[static_cast<size_t>(s.buffer)].role;
    if (role == Buffer::Role::local || (role == Buffer::Role::out && accesses_of(s.buffer) > 1)) return;
    Crossing c{.buffer = s.buffer, .start = s.address, .step = {}, .length = along.extent};
    const auto step = std::ranges::find(c.start, along.var, &Term::var);
    c.step = {step->factor, step->size};
    c.start.erase(step);
    const auto is_outer = [&](const Term& t) {
      return t.var == kNoRef || std::ranges::find(par.axes, t.var, &Axis::var) != par.axes.end();
    };
    if (!std::ranges::all_of(c.start, is_outer)) return;
    across_ = across;
    auto same = std::ranges::find_if(crossing_, [&](const Crossing& o) {
      return o.buffer == c.buffer && o.start == c.start && o.step == c.step && o.length == c.length;
    });
    if (same == crossing_.end()) same = crossing_.insert(same, std::move(c));
    same->accesses.emplace_back(&s, along.var);
  }
  int accesses_of(int buffer) const {
    int count = 0;
    each_stmt(k_.body, [&](const Stmt& s) { count += is_access(s) && s.buffer == buffer; });
    return count;
  }

  Address in_local(const Crossing& c, Ref along) const {
    return {Term{c.length.factor, c.length.size, row_},
            Term{-kTransposeAcross * c.length.factor, c.length.size, tile_}, Term{1, -1, along}};
  }
  // Copies the rows of the tile to or from the local.
  void copy(Block& block, const Crossing& c, bool loads) {
    KernelBuilder b(k_, block);
    const Axis part{b.variable("t"), c.length, {kTransposeAlong}};
    const Axis along{.var = b.variable("j"), .of = part.var};
    const Axis across{.var = b.variable("i"), .of = tile_};
    Address outside = c.start, inside = in_local(c, along.var);
    outside.push_back({c.step.factor, c.step.size, along.var});
    for (Address* a : {&outside, &inside})
      for (Term& t : *a)
        if (t.var == row_) t.var = across.var;
    b.loop(part, false, [&](KernelBuilder& parts) {
      parts.loop(along, true, [&](KernelBuilder& lanes) {
        lanes.loop(across, false, [&](KernelBuilder& rows) {
          const Ref value = rows.load(loads ? c.buffer : c.local, loads ? outside : inside);
          rows.store(loads ? c.local : c.buffer, loads ? inside : outside, value);
        });
      });
    });
  }

  Kernel k_;
  const Dims& sizes_;
  int across_ = -1;  // the par axis of the rows
  Ref row_ = kNoRef, tile_ = kNoRef;
  std::vector<Crossing> crossing_;
};

}  // namespace

Kernel tile_transposed(Kernel kernel, const Dims& sizes) {
  Stmt& par = kernel.body[0];
  if (par.simd || par.body.empty()) return kernel;
  const Stmt& map = par.body.back();
  if (map.kind != K::loop || !map.simd || map.axes.size() != 1) return kernel;
  if (std::any_of(par.body.begin(), par.body.end() - 1, is_loop) || std::ranges::any_of(map.body, is_loop))
    return kernel;
  int cross = -1;
  for (const Stmt& s : map.body)
    if (cross < 0) cross = crossing_axis(par, s, map.axes[0].var);
  if (cross < 0) return kernel;
  const Axis across = par.axes[cross], along = map.axes[0];
  if (!tiles_transposed(known(across, sizes), known(along, sizes))) return kernel;

  KernelBuilder b(kernel, kernel.body);
  const Axis outer_tile{b.variable("t"), across.extent, {kTransposeAcross}};
  const Axis inner_tile{b.variable("t"), along.extent, {kTransposeAlong}};
  Stmt inner{.kind = K::loop, .axes = {{.var = across.var, .of = outer_tile.var}}};
  Stmt loop = std::move(par.body.back());
  par.body.pop_back();
  inner.body = std::move(par.body);
  append(inner.body, std::move(loop.body));
  loop.axes[0] = {.var = along.var, .of = inner_tile.var};
  loop.body.clear();
  loop.body.push_back(std::move(inner));
  par.axes[cross] = outer_tile;
  par.axes.push_back(inner_tile);
  par.body.clear();
  par.body.push_back(std::move(loop));
  return kernel;
}

Kernel tile_rows(Kernel kernel, const Dims& sizes) {
  if (kernel.body[0].simd) return kernel;
  return Rows(std::move(kernel), sizes).run();
}

Kernel tile_columns(Kernel kernel, const Dims& sizes) {
  const Stmt& par = kernel.body[0];
  bool reduces = false, nested = false;
  for (const Stmt& s : par.body) {
    reduces = reduces || (s.kind == K::reduce && !is_narrow(known(s.axes.back(), sizes)));
    nested =
        nested || std::ranges::any_of(s.body, [](const Stmt& i) { return is_loop(i) || i.kind == K::scan; });
  }
  if (!par.simd || !reduces || nested) return kernel;
  return Columns(std::move(kernel)).run();
}

}  // namespace tenon::jit
