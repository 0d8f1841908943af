// See cuda_maps.h.
#include "jit/schedule/cuda_maps.h"

#include <algorithm>
#include <bit>
#include <set>

#include "jit/analysis/transposing.h"
#include "jit/kernel/walk.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

constexpr int kMostVectorsAhead = 8;
constexpr int64_t kFewestWaves = 8;   // of blocks; fewer leave multiprocessors idle at the end
constexpr size_t kLongestAhead = 64;  // most statements of a map that takes several vectors
// Cost of a 32-bit division in bytes read from a cache: about as many instructions as a vector of the
// cheapest maps.
constexpr double kDivisionBytes = 16;
// Threads per multiprocessor among which the vectors of a map are divided, to estimate how many each one takes.
constexpr int64_t kThreadsThatKeep = 32 * 256;
constexpr int64_t kShortestRowRun = 256;  // fewest consecutive bytes within a row
constexpr size_t kMostAxes = 7;

// Whether the address depends on a value, not on loop variables alone.
bool follows_value(const Stmt& par, const Stmt& s) {
  return std::ranges::any_of(s.address, [&](const Term& t) {
    return t.var != kNoRef && std::ranges::none_of(par.axes, [&](const Axis& a) { return a.var == t.var; });
  });
}

// Whether every iteration reads a different element.
bool is_whole(const Stmt& par, const Stmt& s, std::span<const int64_t> sizes) {
  return std::ranges::all_of(par.axes, [&](const Axis& a) {
    return steps_along(s, a.var) || extent_value(a.extent, sizes.data()) == 1;
  });
}

// Bytes that one vector of a map reads from memory, without those that other rows read too. 0: the address of
// a load depends on a value.
int64_t bytes_of_vector(const Kernel& k, std::span<const int64_t> sizes, int vector) {
  const Stmt& par = k.body[0];
  int64_t bytes = 0;
  for (const Stmt& s : par.body) {
    if (s.kind != K::load) continue;
    if (follows_value(par, s)) return 0;
    const bool together =
        std::ranges::any_of(s.address, [&](const Term& t) { return t == Term{1, -1, par.axes.back().var}; });
    if (together && is_whole(par, s, sizes)) bytes += vector * size_of(k.buffers[s.buffer].type);
  }
  return bytes;
}

// Bytes that a thread keeps while it walks along these axes: values that differ from lane to lane, are the
// same along the axes and are read by other statements.
int64_t kept_bytes(const Kernel& map, unsigned axes, int vector) {
  const Stmt& par = map.body[0];
  const std::vector<bool> same = same_along(map, axes);
  std::set<Ref> lanes{par.axes.back().var}, read;
  for (size_t i = 0; i < par.body.size(); ++i) {
    std::set<Ref> uses;
    collect_uses(par.body[i], uses);
    if (std::ranges::any_of(uses, [&](Ref r) { return lanes.count(r); })) lanes.insert(par.body[i].result);
    if (!same[i]) read.insert(uses.begin(), uses.end());
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < par.body.size(); ++i)
    if (const Ref r = par.body[i].result; same[i] && lanes.count(r) && read.count(r))
      bytes += vector * std::max<int64_t>(size_of(map.types[r]), 4);
  return bytes;
}

}  // namespace

int vectors_ahead(const Kernel& k, std::span<const int64_t> sizes, const CudaDevice& device, int relax_level,
                  int vector) {
  if (relax_level > 0 || !is_map(k) || k.body[0].body.size() > kLongestAhead) return 1;
  const int64_t bytes = bytes_of_vector(k, sizes, vector) * device.threads_per_multiprocessor,
                threads = int64_t{device.multiprocessors} * device.threads_per_multiprocessor,
                waves = par_iterations(k, sizes.data(), vector) / std::max<int64_t>(threads, 1);
  int ahead = 1;
  while (bytes > 0 && ahead < kMostVectorsAhead && ahead * bytes < device.bytes_in_flight &&
         waves >= kFewestWaves * ahead * 2)
    ahead *= 2;
  return ahead;
}

std::vector<bool> same_along(const Kernel& map, unsigned axes) {
  const Stmt& par = map.body[0];
  std::set<Ref> changing;
  for (size_t a = 0; a < par.axes.size(); ++a)
    if (axes >> a & 1) changing.insert(par.axes[a].var);
  std::vector<bool> same;
  for (const Stmt& s : par.body) {
    same.push_back(s.kind != K::store && !reads_any(s, changing));
    if (!same.back() && s.result != kNoRef) changing.insert(s.result);
  }
  return same;
}

RowsOfMap rows_of_map(const Kernel& map, std::span<const int64_t> sizes, unsigned axes, int vector) {
  const std::vector<Axis>& all = map.body[0].axes;
  RowsOfMap r;
  for (size_t a = 0; a < all.size(); ++a) {
    int64_t n = extent_value(all[a].extent, sizes.data());
    if (a + 1 == all.size()) n = (n + vector - 1) / vector;
    (axes >> a & 1 ? r.rows : r.columns) *= n;
  }
  return r;
}

unsigned axes_of_rows(const Kernel& map, std::span<const int64_t> sizes, const CudaDevice& device, int vector,
                      int64_t steps) {
  const Stmt& par = map.body[0];
  const size_t n = par.axes.size();
  if (n < 2 || n > kMostAxes) return 0;
  const double vectors = static_cast<double>(par_iterations(map, sizes.data(), vector)),
               threads = static_cast<double>(device.multiprocessors * kThreadsThatKeep);
  int widest = 1;
  std::vector<const Stmt*> again;  // loads of elements that other iterations read too
  for (const Stmt& s : par.body) {
    if (!is_access(s)) continue;
    widest = std::max(widest, static_cast<int>(size_of(map.buffers[s.buffer].type)));
    if (s.kind == K::load && !follows_value(par, s) && !is_whole(par, s, sizes)) again.push_back(&s);
  }
  auto bytes = [&](const Stmt& s) {
    return static_cast<double>(size_of(map.buffers[s.buffer].type) *
                               (steps_along(s, par.axes.back().var) ? vector : 1));
  };
  const auto of_row = static_cast<double>(std::max<int64_t>(steps, 1));
  double least = kDivisionBytes * static_cast<double>(steps > 0 ? n - 2 : n - 1) / of_row;
  for (const Stmt* s : again) least += bytes(*s) / (steps_along(*s, par.axes.back().var) ? 1 : of_row);

  unsigned best = 0;
  for (unsigned axes = 1; axes < 1u << (n - 1); ++axes) {
    const RowsOfMap r = rows_of_map(map, sizes, axes, vector);
    const double each = std::min(static_cast<double>(r.rows), vectors / threads);
    if (each < 2 || kept_bytes(map, axes, vector) > kBytesAhead) continue;
    int64_t run = widest;
    size_t inner = n;
    while (!(axes >> (inner - 1) & 1)) run *= extent_value(par.axes[--inner].extent, sizes.data());
    const int rows = std::popcount(axes), columns = static_cast<int>(n) - rows;
    if (static_cast<size_t>(columns) > n - inner && run < kShortestRowRun) continue;
    double cost = kDivisionBytes * (rows - 1 + columns / each);
    for (const Stmt* s : again) {
      bool changes = false;
      for (size_t a = 0; a < n; ++a)
        changes = changes || ((axes >> a & 1) && steps_along(*s, par.axes[a].var));
      cost += bytes(*s) / (changes ? 1 : each);
    }
    if (cost < least) least = cost, best = axes;
  }
  return best;
}

}  // namespace tenon::jit
