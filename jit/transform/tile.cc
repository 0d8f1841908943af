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

// The par axis along which some access steps by one while it jumps from lane to lane. -1: there is none.
int crossing_axis(const Stmt& par, const Block& body, Ref lane) {
  for (const Stmt& s : body) {
    auto steps_by_one = [&](Ref var) {
      return std::ranges::any_of(s.address, [&](const Term& t) { return t == Term{1, -1, var}; });
    };
    if (!steps_along(s, lane) || steps_by_one(lane)) continue;
    for (size_t a = 0; a < par.axes.size(); ++a)
      if (steps_by_one(par.axes[a].var)) return static_cast<int>(a);
  }
  return -1;
}

}  // namespace

Kernel tile_transposed(Kernel kernel, const Dims& sizes) {
  Stmt& par = kernel.body[0];
  if (par.simd || par.body.empty()) return kernel;
  const Stmt& map = par.body.back();
  if (map.kind != K::loop || !map.simd || map.axes.size() != 1) return kernel;
  if (std::any_of(par.body.begin(), par.body.end() - 1, is_loop) || std::ranges::any_of(map.body, is_loop))
    return kernel;
  const int cross = crossing_axis(par, map.body, map.axes[0].var);
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
