// See cuda_schedule.h.
#include "jit/schedule/cuda_schedule.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "jit/analysis/transposing.h"
#include "jit/kernel/walk.h"
#include "jit/schedule/cuda_maps.h"
#include "jit/schedule/cuda_rows.h"
#include "src/base/align.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;
using Form = CudaSchedule::Form;
using Locals = CudaSchedule::Locals;

constexpr int kBlock = 256, kSmallestBlock = 64;
constexpr int64_t kOfWideIndices = 16;         // registers for 64-bit addresses
constexpr int kBlocksPerMultiprocessor = 128;  // of a launch
constexpr int kTile = 64, kSmallTile = 32;     // elements per side
constexpr int kTransactionBytes = 32;          // of memory
constexpr int kMostAhead = 16;
constexpr int kMostRows = 32;                            // threads that share a column
constexpr int64_t kFewestSteps = 4;                      // fewest steps of such a thread
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;  // of a launch
constexpr int64_t kIndex32 = (int64_t{1} << 31) - 1;

// The variable of the simd axis around a statement, or kNoRef.
Ref simd_of(const Around& around) { return around.simd ? around.simd->axes.back().var : kNoRef; }

// aligned: every access to adjacent elements starts at a multiple of `vector` elements. whole: the extents of
// simd axes are multiples of `vector`. map: its crossing statements access adjacent elements along its other
// axis.
struct Alignment {
  bool aligned = true, whole = true;
};
Alignment alignment_of(const Kernel& k, std::span<const int64_t> sizes, int vector, int64_t bytes,
                       const TransposingMap* map = nullptr) {
  Alignment result;
  if (map) result.whole = extent_value(map->across.extent, sizes.data()) % vector == 0;
  each_stmt(k.body, [&](const Stmt& s, const Around& around) {
    const Ref simd = map && map->crosses(s) ? map->across.var : simd_of(around);
    if (s.simd) {
      const Axis* tiles = tiled_axis(k, s.axes.back());
      const Extent& e = tiles ? tiles->extent : s.axes.back().extent;
      if (extent_value(e, sizes.data()) % vector != 0) result.whole = false;
      if (tiles && extent_value(tiles->by, sizes.data()) % vector != 0) result.aligned = result.whole = false;
    }
    if (!is_access(s) || simd == kNoRef) return;
    bool together = false;
    int64_t rest = 0;
    for (const Term& t : s.address) {
      const int64_t scale = t.size < 0 ? t.factor : t.factor * sizes[t.size];
      if (t.var == simd && scale == 1)
        together = true;
      else
        rest |= scale;
    }
    const bool local = k.buffers[s.buffer].role == Buffer::Role::local;
    const int64_t width = int64_t{vector} * size_of(k.buffers[s.buffer].type);
    if (together && (rest % vector != 0 || (!local && std::min<int64_t>(width, 16) > bytes)))
      result.aligned = false;
  });
  return result;
}

// Schedules a transposing map in tiles if this pays: both axes have long enough runs, and there are enough
// tiles for all multiprocessors. False: `s` is unchanged.
bool tile_map(const TransposingMap& map, std::span<const int64_t> sizes, const CudaDevice& device,
              int64_t alignment, int relax_level, CudaSchedule& s) {
  const int64_t along = extent_value(map.along.extent, sizes.data()),
                across = extent_value(map.across.extent, sizes.data()),
                elements = par_iterations(map.kernel, sizes.data(), 1);
  int narrowest = 8;
  int64_t widths = 0;  // bytes of one element in all tiles
  for (size_t i : map.crossing) {
    const int width = static_cast<int>(size_of(map.kernel.buffers[map.statement(i).buffer].type));
    narrowest = std::min(narrowest, width);
    widths += width;
  }
  if (std::min(along, across) * narrowest < kTransactionBytes) return false;
  if (elements < int64_t{device.multiprocessors} * kSmallTile * kSmallTile) return false;
  // Shared memory for as many resident blocks as the number of threads allows.
  const int64_t blocks = device.threads_per_multiprocessor / kBlock,
                limit = std::min(device.shared_bytes / blocks, int64_t{48} << 10);
  int side = kTile;
  if (elements < int64_t{2} * device.multiprocessors * side * side || side * (side + 1) * widths > limit)
    side = kSmallTile;
  auto length = [](int64_t extent, int most) {
    return static_cast<int>(
        std::min<int64_t>(most, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)))));
  };
  CudaSchedule tiled = s;
  tiled.form = Form::tiled;
  tiled.team = s.block;
  tiled.along = length(along, side);
  tiled.across = length(across, side);
  // If one axis is short, tiles are longer along the other axis.
  if (tiled.along < side)
    tiled.across = length(across, std::min(kBlock, side * side / tiled.along));
  else
    tiled.along = length(along, std::min(kBlock, side * side / tiled.across));
  int64_t bytes = 0;
  for (size_t i : map.crossing)
    bytes += cuda_tile_bytes(tiled, map.kernel.buffers[map.statement(i).buffer].type);
  if (bytes > device.shared_bytes) return false;
  for (int v = relax_level >= 3 ? 1 : std::max(1, 4 / narrowest); v >= 1; v /= 2) {
    const Alignment a = alignment_of(map.kernel, sizes, v, alignment, &map);
    if (tiled.along * tiled.across < kBlock * v || (!a.aligned && v > 1)) continue;
    tiled.vector = v;
    tiled.whole = a.whole;
    s = tiled;
    return true;
  }
  return false;
}

// Bytes of the widest element that adjacent lanes load or store.
int widest_neighbour(const Kernel& k) {
  int widest = 1;
  each_stmt(k.body, [&](const Stmt& s, const Around& around) {
    if (around.simd && steps_along(s, simd_of(around)) && k.buffers[s.buffer].role != Buffer::Role::local)
      widest = std::max(widest, static_cast<int>(size_of(k.buffers[s.buffer].type)));
  });
  return widest;
}

// The largest element number that an access reaches, iteration count of a loop, or size. Nothing if an
// address depends on values.
std::optional<int64_t> farthest(const Kernel& k, std::span<const int64_t> sizes) {
  std::map<Ref, int64_t> last;
  int64_t most = 0;
  for (int64_t size : sizes) most = std::max(most, size < 0 ? -size : size);  // offsets may be negative
  bool known = true;
  auto note = [&](__int128 n) {
    most = static_cast<int64_t>(std::max<__int128>(most, std::min<__int128>(n, INT64_MAX)));
  };
  each_stmt(k.body, [&](const Stmt& s) {
    __int128 iterations = 1;
    for (const Axis& a : s.axes) {
      const int64_t all = a.of == kNoRef ? extent_value(a.extent, sizes.data()) : last.at(a.of);
      last[a.var] = std::max<int64_t>(all, 1);
      iterations = std::min<__int128>(iterations * last[a.var], INT64_MAX);
    }
    note(iterations);
    __int128 sum = 0;
    for (const Term& t : s.address) {
      const __int128 scale = t.size < 0 ? t.factor : static_cast<__int128>(t.factor) * sizes[t.size];
      const __int128 far = scale < 0 ? -scale : scale;
      if (t.var != kNoRef && !last.count(t.var))
        known = false;
      else
        sum += far * (t.var == kNoRef ? 1 : last.at(t.var));
    }
    note(sum);
  });
  return known ? std::optional(most) : std::nullopt;
}

// Bytes that a step of the widest sequential reduction loads with vectors of this length, and its steps. 0:
// there is no such reduction.
struct InOrder {
  int64_t bytes = 0, steps = 0;
};
InOrder reduction_in_order(const Kernel& k, std::span<const int64_t> sizes, int vector) {
  InOrder widest;
  each_stmt(k.body, [&](const Stmt& s, const Around& around) {
    if (s.kind != K::reduce || s.simd) return;
    InOrder here;
    for (const Stmt& inner : s.body) {
      if (inner.kind != K::load) continue;
      const bool lanes = steps_along(inner, simd_of(around));
      here.bytes += size_of(k.buffers[inner.buffer].type) * (lanes ? vector : 1);
    }
    const Axis& axis = s.axes.back();
    here.steps = axis.of == kNoRef ? extent_value(axis.extent, sizes.data()) : 0;
    if (const Axis* tiles = tiled_axis(k, axis)) here.steps = extent_value(tiles->by, sizes.data());
    if (here.bytes > widest.bytes) widest = here;
  });
  return widest;
}

// Whether threads can share the columns of a kernel: its par nest has sequential reductions and no other loop,
// and stores nothing before the end of the last one.
bool shares_columns(const Kernel& k) {
  const Stmt& par = k.body[0];
  bool folds = false, stores = false;
  for (const Stmt& s : par.body) {
    if (s.kind == K::loop || s.kind == K::scan || s.simd) return false;
    if (s.kind == K::reduce && stores) return false;
    folds = folds || s.kind == K::reduce;
    stores = stores || s.kind == K::store;
    if (std::ranges::any_of(s.body, [](const Stmt& i) { return !i.axes.empty() || i.kind == K::store; }))
      return false;
  }
  return par.simd && folds;
}

// Where there are few columns, several threads of a block share the rows of each column. If this does not
// suffice, short vectors and small blocks make more threads. A thread issues the loads of several steps
// together.
void columns(const Kernel& k, std::span<const int64_t> sizes, const CudaDevice& device, int64_t alignment,
             int relax_level, CudaSchedule& s) {
  const InOrder single = reduction_in_order(k, sizes, 1);
  if (single.bytes == 0) return;
  const int64_t enough =
      device.multiprocessors * std::max<int64_t>(device.bytes_in_flight / kBytesAhead, kBlock);
  auto threads = [&] { return par_iterations(k, sizes.data(), s.vector) * s.rows; };
  while (shares_columns(k) && s.rows < kMostRows && threads() < enough &&
         single.steps >= 2 * kFewestSteps * s.rows)
    s.rows *= 2;
  auto run = [&] {
    return s.block / s.rows * s.vector * widest_neighbour(k);
  };  // bytes of a row that a block reads at once
  while (s.vector > 1 &&
         (s.rows == 1 ? threads() < enough : threads() < enough / 2 && run() > kTransactionBytes))
    s.vector /= 2;
  s.whole = alignment_of(k, sizes, s.vector, alignment).whole;
  while (s.rows == 1 && s.block > kSmallestBlock && threads() < int64_t{2} * device.multiprocessors * s.block)
    s.block /= 2;
  if (relax_level > 0) return;
  const InOrder r = reduction_in_order(k, sizes, s.vector);
  const int64_t most = std::min<int64_t>({kBytesAhead / r.bytes, r.steps / s.rows, kMostAhead});
  s.ahead = static_cast<int>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(most, 1))));
}

// The longest vectors with which lanes run along `length` adjacent elements.
void choose_vector(const Kernel& k, std::span<const int64_t> sizes, int64_t length, int64_t alignment,
                   int relax_level, CudaSchedule& s) {
  for (int v = relax_level >= 3 ? 1 : std::clamp(16 / widest_neighbour(k), 1, 8); v > 1; v /= 2) {
    const Alignment a = alignment_of(k, sizes, v, alignment);
    if (!a.aligned || length < v) continue;
    s.vector = v;
    s.whole = a.whole;
    return;
  }
  s.whole = true;
}

}  // namespace

int64_t registers_of_thread(const CudaSchedule& s, const CudaDevice& device) {
  return std::min<int64_t>(device.registers / s.block, 255) - (s.wide ? kOfWideIndices : 0);
}

int64_t cuda_tile_bytes(const CudaSchedule& s, DType type) {
  return (int64_t{s.along} * (s.across + 1) * size_of(type) + 15) / 16 * 16;
}

bool is_map(const Kernel& kernel) {
  const Stmt& par = kernel.body[0];
  return par.simd &&
         std::ranges::all_of(par.body, [](const Stmt& s) { return s.axes.empty() && s.kind != K::scan; });
}

std::string describe(const CudaSchedule& s) {
  std::string text = s.form == Form::tiled
                         ? "tiled " + std::to_string(s.along) + "x" + std::to_string(s.across)
                         : (s.form == Form::flat ? "flat " : "row ") + std::to_string(s.team) + "x" +
                               std::to_string(s.block / s.team);
  text += " vector " + std::to_string(s.vector);
  if (s.resident > 1) text += " resident " + std::to_string(s.resident);
  if (s.rows > 1) text += " rows " + std::to_string(s.rows);
  for (unsigned a = 0; s.outer >> a; ++a)
    if (s.outer >> a & 1) text += (s.outer & ((1u << a) - 1) ? "," : " outer ") + std::to_string(a);
  if (s.cluster > 1) text += " cluster " + std::to_string(s.cluster);
  if (s.locals == Locals::registers) text += " registers " + std::to_string(s.chunks);
  if (s.locals == Locals::shared) text += " shared";
  if (s.locals == Locals::global) text += " global";
  if (s.ahead > 1) text += " ahead " + std::to_string(s.ahead);
  return text + (s.whole ? " whole" : "") + (s.wide ? " wide" : "") + (s.approximate ? " approximate" : "");
}

CudaDecision cuda_schedule(const Kernel& k, std::span<const int64_t> sizes, const CudaDevice& device,
                           int64_t alignment, int64_t longest_buffer, int relax_level, bool joined) {
  CudaSchedule s;
  s.block = kBlock;
  const bool simd = k.body[0].simd;
  s.approximate = true;
  for (const Buffer& b : k.buffers) {
    if (b.role == Buffer::Role::out) s.approximate = s.approximate && is_narrow(b.type);
  }
  const auto far = farthest(k, sizes);
  s.wide = !far ? longest_buffer < 0 || longest_buffer > kIndex32 : *far > kIndex32;
  s.wide = s.wide || par_iterations(k, sizes.data(), 1) > kIndex32;

  if (const auto map = transposing_map(k); map && tile_map(*map, sizes, device, alignment, relax_level, s)) {
    if (simd) return s;
    return CudaRewrite::merge_map;
  }
  const CudaRows rows(k, sizes);
  const bool row = rows.possible() && rows.longest() > 1;
  if (row)
    choose_vector(k, sizes, rows.longest(), alignment, relax_level, s);
  else if (simd)
    choose_vector(k, sizes, extent_value(k.body[0].axes.back().extent, sizes.data()), alignment, relax_level,
                  s);
  if (!row) {
    if (has_locals(k)) s.locals = Locals::global;
    s.ahead = vectors_ahead(k, sizes, device, relax_level, s.vector);
    if (relax_level == 0 && is_map(k) && merge_map(k)) s.outer = axes_of_rows(k, sizes, device, s.vector, 0);
    columns(k, sizes, device, alignment, relax_level, s);
    return s;
  }
  return schedule_rows(rows, device, relax_level, joined, s);
}

CudaLaunch cuda_launch(const Kernel& k, const CudaSchedule& s, std::span<const int64_t> sizes,
                       const CudaDevice& device) {
  CudaLaunch launch;
  launch.threads = s.block;
  // Every block has its own scratch memory, so there are no more blocks than run at once.
  const int64_t per_multiprocessor = s.locals == Locals::global
                                         ? std::max(1, device.threads_per_multiprocessor / s.block)
                                         : kBlocksPerMultiprocessor;
  // A block of a map that keeps nothing ends after its vectors, which is faster than to go on with others.
  const bool ends = s.form == Form::flat && s.outer == 0 && s.locals != Locals::global;
  const int64_t most = ends ? kMostBlocks : device.multiprocessors * per_multiprocessor;
  if (s.form == Form::tiled) {
    const auto map = transposing_map(k);
    int64_t tiles = 1;
    for (const Axis& a : map->kernel.body[0].axes) {
      const int64_t step = a.var == map->along.var ? s.along : a.var == map->across.var ? s.across : 1;
      tiles *= (extent_value(a.extent, sizes.data()) + step - 1) / step;
    }
    launch.blocks = std::min(tiles, most);
    for (size_t i : map->crossing)
      launch.shared_bytes += cuda_tile_bytes(s, map->kernel.buffers[map->statement(i).buffer].type);
    return launch;
  }
  const int64_t teams = s.block / s.team / s.rows, at_once = is_map(k) ? teams * s.ahead : teams;
  int64_t count = par_iterations(k, sizes.data(), s.form == Form::flat ? s.vector : 1);
  if (s.outer != 0) {
    const RowsOfMap r = rows_of_map(k, sizes, s.outer, s.vector);
    count = (r.rows + s.ahead - 1) / s.ahead * s.ahead * r.columns;
  }
  launch.blocks = std::min((count + at_once - 1) / at_once, most / s.cluster) * s.cluster;
  launch.cluster = s.cluster;
  if (s.locals == Locals::shared) launch.shared_bytes = bytes_of_locals(k, s, sizes) * teams;
  if (s.locals == Locals::global) {
    launch.scratch_stride = bytes_of_locals(k, s, sizes);
    launch.scratch_bytes = launch.scratch_stride * teams * launch.blocks;
  }
  return launch;
}

}  // namespace tenon::jit
