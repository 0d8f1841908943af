// See tile.h.
#include "jit/transform/cpu/tile.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <span>

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

// Whether the access steps by one along `across` while it jumps along `along`.
bool crosses(const Stmt& s, Ref across, Ref along) {
  return steps_along(s, along) && !steps_by(s, along, 1) && steps_by(s, across, 1);
}

// Whether the access takes short steps along `across`, such as those to every other element, while it jumps far along `along`.
bool nearly_crosses(const Stmt& s, Ref across, Ref along) {
  constexpr int64_t kShort = 4, kFar = 64;
  bool is_short = false, is_far = false;
  for (const Term& t : s.address) {
    is_short = is_short || (t.var == across && t.size < 0 && std::abs(t.factor) <= kShort);
    is_far = is_far || (t.var == along && (t.size >= 0 || std::abs(t.factor) >= kFar));
  }
  return is_short && is_far;
}

// Accesses of loops along a row that jump in memory, and step by one from row to row. They get locals instead, which hold a tile of rows: a
// copy fills the local of a load before the rows of the tile run, and another empties the local of a store behind them.
class CrossingAccesses {
 public:
  // rows: the axis of the rows. outer: the variables of all loops around a tile, and of the rows.
  CrossingAccesses(Kernel& kernel, const Dims& sizes, const Axis& rows, std::set<Ref> outer)
      : k_(kernel), sizes_(sizes), rows_(rows), outer_(std::move(outer)) {}

  bool empty() const { return found_.empty(); }

  // Notes the accesses of a loop along a row that cross the rows, and read an input or are the only one of an output.
  void add(Stmt& loop, const Axis& along) {
    for (Stmt& s : loop.body)
      if (is_access(s) && crosses(s, rows_.var, along.var) && is_alone(s) &&
          tiles_transposed(known(rows_, sizes_), known(along, sizes_)))
        note(s, along);
  }

  // Makes the copies. tile: the variable that counts tiles of `by` rows.
  void redirect(Ref tile, int64_t by, Block& before, Block& behind) {
    for (const Crossing& c : found_) {
      const Buffer& buffer = k_.buffers[static_cast<size_t>(c.buffer)];
      const bool loads = buffer.role == Buffer::Role::in;
      const int local = static_cast<int>(k_.buffers.size());
      k_.buffers.push_back({Buffer::Role::local,
                            buffer.type,
                            "r" + std::to_string(local),
                            {by * c.length.factor, c.length.size}});
      const auto in_local = [&](Ref row, Ref along) {
        return Address{Term{c.length.factor, c.length.size, row},
                       Term{-by * c.length.factor, c.length.size, tile}, Term{1, -1, along}};
      };
      for (const auto& [access, along] : c.accesses)
        access->buffer = local, access->address = in_local(rows_.var, along);

      KernelBuilder b(k_, loads ? before : behind);
      const Axis part{b.variable("t"), c.length, {kTransposeAlong}};
      const Axis along{.var = b.variable("j"), .of = part.var}, row{.var = b.variable("i"), .of = tile};
      Address outside = c.start;
      for (Term& t : outside)
        if (t.var == rows_.var) t.var = row.var;
      outside.push_back({c.step.factor, c.step.size, along.var});
      const Address inside = in_local(row.var, along.var);
      b.loop(part, false, [&](KernelBuilder& parts) {
        parts.loop(along, true, [&](KernelBuilder& lanes) {
          lanes.loop(row, false, [&](KernelBuilder& body) {
            const Ref value = body.load(loads ? c.buffer : local, loads ? outside : inside);
            body.store(loads ? local : c.buffer, loads ? inside : outside, value);
          });
        });
      });
    }
  }

 private:
  struct Crossing {
    int buffer;
    Address start;                                     // of the row
    Term step;                                         // along the row, without the variable
    Extent length;                                     // of the row
    std::vector<std::pair<Stmt*, Ref>> accesses = {};  // and the variable along the row
  };

  void note(Stmt& s, const Axis& along) {
    Crossing c{.buffer = s.buffer, .start = s.address, .step = {}, .length = along.extent};
    const auto step = std::ranges::find(c.start, along.var, &Term::var);
    c.step = {step->factor, step->size};
    c.start.erase(step);
    const auto is_outer = [&](const Term& t) { return t.var == kNoRef || outer_.count(t.var) > 0; };
    if (!std::ranges::all_of(c.start, is_outer)) return;
    auto same = std::ranges::find_if(found_, [&](const Crossing& o) {
      return o.buffer == c.buffer && o.start == c.start && o.step == c.step && o.length == c.length;
    });
    if (same == found_.end()) same = found_.insert(same, std::move(c));
    same->accesses.emplace_back(&s, along.var);
  }
  bool is_alone(const Stmt& access) const {
    const Buffer::Role role = k_.buffers[static_cast<size_t>(access.buffer)].role;
    int count = 0;
    each_stmt(k_.body, [&](const Stmt& s) { count += is_access(s) && s.buffer == access.buffer; });
    return role == Buffer::Role::in || (role == Buffer::Role::out && count == 1);
  }

  Kernel& k_;
  const Dims& sizes_;
  const Axis rows_;
  const std::set<Ref> outer_;
  std::vector<Crossing> found_;
};

std::set<Ref> variables(std::span<const Axis> axes) {
  std::set<Ref> vars;
  for (const Axis& a : axes) vars.insert(a.var);
  return vars;
}

// Rows that are iterations of the par nest: the nest counts tiles of them instead.
void tile_rows_of_par(Kernel& kernel, const Dims& sizes) {
  Stmt& par = kernel.body[0];
  for (Axis& rows : par.axes) {
    const Dim many = known(rows, sizes);
    if (!rows.is_whole() || (many.is_const() && many.value() < kTransposeAcross))
      continue;  // threads share few rows
    CrossingAccesses crossing(kernel, sizes, rows, variables(par.axes));
    for (Stmt& loop : par.body)
      if (is_loop(loop) && loop.axes.size() == 1 && loop.axes[0].is_whole()) crossing.add(loop, loop.axes[0]);
    if (crossing.empty()) continue;

    const Axis tile{KernelBuilder(kernel, par.body).variable("t"), rows.extent, {kTransposeAcross}};
    Block body, behind;
    crossing.redirect(tile.var, kTransposeAcross, body, behind);
    body.push_back(
        {.kind = K::loop, .axes = {{.var = rows.var, .of = tile.var}}, .body = std::move(par.body)});
    append(body, std::move(behind));
    rows = tile;
    par.body = std::move(body);
    return;
  }
}

// Rows of a part of a fold (long_sums.h), which are such a tile already.
void tile_rows_of_parts(Kernel& kernel, const Dims& sizes) {
  Stmt& par = kernel.body[0];
  for (Stmt& parts : par.body) {
    if (parts.kind != K::reduce || !parts.axes.back().counts_tiles() || parts.axes.back().by.size >= 0)
      continue;
    const Axis part = parts.axes.back();
    Stmt& fold = parts.body[0];
    if (fold.kind != K::reduce || fold.axes.size() != 2 || fold.axes[0].of != part.var ||
        !fold.axes[1].is_whole())
      continue;
    std::set<Ref> outer = variables(par.axes);
    outer.merge(variables(parts.axes));
    outer.insert(fold.axes[0].var);
    CrossingAccesses crossing(kernel, sizes, {.var = fold.axes[0].var, .extent = part.extent},
                              std::move(outer));
    crossing.add(fold, fold.axes[1]);
    Block body, none;
    crossing.redirect(part.var, part.by.factor, body, none);
    append(body, std::move(parts.body));
    parts.body = std::move(body);
  }
}

}  // namespace

Kernel tile_transposed(Kernel kernel, const Dims& sizes) {
  Stmt& par = kernel.body[0];
  if (par.simd || par.body.empty()) return kernel;
  const Stmt& map = par.body.back();
  if (map.kind != K::loop || !map.simd || map.axes.size() != 1) return kernel;
  if (std::any_of(par.body.begin(), par.body.end() - 1, is_loop) || std::ranges::any_of(map.body, is_loop))
    return kernel;
  const Axis along = map.axes[0];
  // The first access that crosses an axis decides which one.
  size_t cross = par.axes.size();
  for (const Stmt& s : map.body)
    for (size_t a = 0; a < par.axes.size() && cross == par.axes.size(); ++a)
      if (crosses(s, par.axes[a].var, along.var) || nearly_crosses(s, par.axes[a].var, along.var)) cross = a;
  if (cross == par.axes.size()) return kernel;
  const Axis across = par.axes[cross];
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
  tile_rows_of_par(kernel, sizes);
  tile_rows_of_parts(kernel, sizes);
  return kernel;
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
