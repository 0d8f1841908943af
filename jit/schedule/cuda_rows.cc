// See cuda_rows.h.
#include "jit/schedule/cuda_rows.h"

#include <algorithm>
#include <bit>

#include "jit/analysis/transposing.h"
#include "jit/schedule/cuda_maps.h"
#include "src/base/align.h"

namespace tenon::jit {

using K = Stmt::Kind;
using Form = CudaSchedule::Form;
using Locals = CudaSchedule::Locals;

namespace {

constexpr int kSmallBlock = 256, kLargestBlock = 1024;
constexpr int kMostChunks = 8;  // steps of a row that a thread keeps
// Threads of blocks that keep rows, per multiprocessor. They leave each thread 64 registers.
constexpr int kResidentThreads = 1024;
constexpr int64_t kFewKeptBytes = 64;  // of a thread; with these, compilers take few registers by themselves
constexpr int64_t kMostKeptToFold = 1024;  // vectors; a longer row that is only folded is read once, not kept
constexpr int64_t kFoldsBytes = 1 << 10;   // shared memory for the exchange of folds
constexpr int kFirstWithClusters = 90;     // first architecture with clusters
constexpr int kMostBlocksOfCluster = 8;    // supported by every device

// The schedule of a kernel whose rows teams share.
class RowSchedule {
 public:
  RowSchedule(const CudaRows& rows, const CudaDevice& device, int relax_level, bool joined,
              const CudaSchedule& start)
      : rows_(rows),
        k_(rows.kernel()),
        sizes_(rows.sizes()),
        device_(device),
        relax_level_(relax_level),
        joined_(joined),
        vectors_(ceil_div(rows.longest(), start.vector)),
        iterations_(par_iterations(k_, sizes_.data(), 1)),
        s_(start) {
    s_.form = Form::row;
  }

  CudaDecision decide() {
    choose_team();
    const bool all_threads = iterations_ * s_.team >= threads();
    // A map with few long rows: every vector gets its own thread. Also if a thread saves work by going across
    // rows.
    if (const auto map = k_.body[0].simd ? std::nullopt : merge_map(k_);
        map && ((vectors_ > s_.team && !all_threads) || keeps_operands(*map)))
      return CudaRewrite::merge_map;
    // Few rows of other kernels: each gets a block, although some threads of it are idle.
    if (s_.team == 32 && vectors_ > 32 && iterations_ * s_.team < threads() / 4) s_.team = s_.block = 128;
    const bool only_folds = !rows_.stores() && vectors_ > kMostKeptToFold;
    if (only_folds && !joined_ && rows_.again()) return CudaRewrite::join_online_reductions;
    if (only_folds && joined_ && !rows_.again()) {
      stream();
    } else {
      keep();
      // A row that is not kept on chip is read as few times as possible.
      if (!joined_ && s_.chunks == 0 && s_.cluster == 1 && s_.locals != Locals::shared && rows_.again())
        return CudaRewrite::join_online_reductions;
    }
    // Few rows that nothing keeps: a cluster walks each, because otherwise most multiprocessors would be idle.
    if (s_.chunks == 0 && s_.locals == Locals::none && has_clusters())
      while (s_.cluster < kMostBlocksOfCluster && iterations_ * s_.cluster * 2 <= device_.multiprocessors &&
             vectors_ > int64_t{s_.team} * s_.cluster * kMostChunks)
        s_.cluster *= 2;
    return s_;
  }

 private:
  int64_t threads() const { return int64_t{device_.multiprocessors} * device_.threads_per_multiprocessor; }
  bool has_clusters() const { return device_.architecture >= kFirstWithClusters && s_.team == s_.block; }

  // Whether a thread that goes across rows of this map saves work.
  bool keeps_operands(const Kernel& map) const {
    return relax_level_ == 0 &&
           axes_of_rows(map, sizes_, device_, s_.vector, ceil_div(vectors_, s_.team)) != 0;
  }

  // The steps in which threads walk a row that their registers keep. 0: their registers cannot keep it.
  int kept_steps(int64_t threads, int64_t registers) const {
    const int64_t steps = ceil_div(vectors_, threads);
    const bool fits = relax_level_ <= 1 && rows_.fits_registers() && steps <= kMostChunks &&
                      steps * s_.vector * rows_.kept_bytes() <= registers * 4;
    return fits ? static_cast<int>(steps) : 0;
  }
  // Registers for the part of a row that a thread of a block keeps: three quarters of all.
  int64_t registers_of_row() const {
    CudaSchedule full = s_;
    full.block = kResidentThreads;
    return registers_of_thread(full, device_) * 3 / 4;
  }

  void choose_team() {
    if (vectors_ <= 128) {
      s_.team = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(vectors_, 1, 32))));
      return;
    }
    // Sums that live from row to row take registers too.
    const int64_t each = rows_.several() ? 2 : 4;
    int team = kSmallBlock / 2;
    while (team < 2 * kSmallBlock && vectors_ > team * each) team *= 2;
    int keeping = team;
    while (keeping < kLargestBlock && kept_steps(keeping, registers_of_row()) == 0) keeping *= 2;
    if (kept_steps(keeping, registers_of_row()) > 0)
      team = keeping;
    else if (vectors_ > int64_t{team} * kMostChunks)
      team = kLargestBlock;
    s_.team = s_.block = team;
  }

  // Rows that are folded only: as many small blocks as a multiprocessor runs, or larger ones if rows are few.
  void stream() {
    s_.team = kLargestBlock;
    while (s_.team > kSmallBlock && iterations_ * s_.team >= 2 * threads()) s_.team /= 2;
    s_.block = s_.team;
  }

  // Where a row is kept: in registers of a block, in shared memory, in registers or shared memory of a
  // cluster, or in global memory.
  void keep() {
    s_.chunks = s_.team == s_.block ? kept_steps(s_.team, registers_of_row())
                                    : kept_steps(s_.team, registers_of_thread(s_, device_) / 2);
    const int64_t shared_room = device_.shared_bytes - kFoldsBytes;
    const bool shared = bytes_of_locals(k_, s_, sizes_) * (s_.block / s_.team) <= shared_room;
    if (s_.chunks == 0 && has_clusters() && rows_.again() && !rows_.several() && rows_.fits_registers() &&
        !(has_locals(k_) && shared))
      choose_cluster(shared_room);
    if (s_.chunks > 0) {
      s_.locals = Locals::registers;
      const int64_t bytes = s_.chunks * s_.vector * rows_.kept_bytes();
      if (s_.team == s_.block && relax_level_ == 0 && (bytes > kFewKeptBytes || rows_.several()))
        s_.resident = static_cast<int>(std::max<int64_t>(kResidentThreads / s_.block, 1));
    } else if (s_.cluster > 1) {
      s_.locals = Locals::shared;
    } else if (has_locals(k_)) {
      s_.locals = shared ? Locals::shared : Locals::global;
    }
  }

  // The smallest blocks whose cluster keeps a row in registers, or else the smallest cluster with the shared
  // memory for it. Few rows get larger blocks.
  void choose_cluster(int64_t shared_room) {
    int block = kSmallBlock;
    while (block < kLargestBlock && iterations_ * block * kMostBlocksOfCluster < threads()) block *= 2;
    for (; block <= kLargestBlock; block *= 2)
      for (int c = 2; c <= kMostBlocksOfCluster; c *= 2) {
        s_.chunks = kept_steps(int64_t{block} * c, registers_of_row());
        if (s_.chunks == 0) continue;
        s_.team = s_.block = block;
        s_.cluster = c;
        return;
      }
    if (!has_locals(k_)) return;
    for (int c = 2; c <= kMostBlocksOfCluster && s_.cluster == 1; c *= 2) {
      CudaSchedule wider = s_;
      wider.cluster = c;
      if (bytes_of_locals(k_, wider, sizes_) <= shared_room) s_.cluster = c;
    }
  }

  const CudaRows& rows_;
  const Kernel& k_;
  const std::span<const int64_t> sizes_;
  const CudaDevice& device_;
  const int relax_level_;
  const bool joined_;
  const int64_t vectors_, iterations_;  // vectors of a row, and rows
  CudaSchedule s_;
};

}  // namespace

const Axis* tiled_axis(const Kernel& kernel, const Axis& axis) {
  for (const Axis& a : kernel.body[0].axes)
    if (a.var == axis.of && a.counts_tiles()) return &a;
  return nullptr;
}

CudaRows::CudaRows(const Kernel& kernel, std::span<const int64_t> sizes) : k_(kernel), sizes_(sizes) {
  if (k_.body[0].simd) return;
  possible_ = true;
  each_stmt(k_.body[0].body, [&](const Stmt& s, const Around& around) { note(s, around); });
  possible_ = possible_ && longest_ >= 0;
}

int64_t CudaRows::kept_bytes() const {
  int64_t bytes = 0;
  for (const auto& [buffer, at] : locals_) bytes += size_of(k_.buffers[buffer].type);
  for (const auto& [buffer, loops] : loads_)
    if (loops > 1) bytes += size_of(k_.buffers[buffer].type);
  return bytes;
}

void CudaRows::note(const Stmt& s, const Around& around) {
  if (s.kind == K::scan) possible_ = false;
  for (const Axis& a : s.axes)
    if (a.counts_tiles() || (a.of != kNoRef && !tiled_axis(k_, a))) possible_ = false;
  if (is_access(s)) {
    const Buffer::Role role = k_.buffers[s.buffer].role;
    if (s.kind == K::load && role == Buffer::Role::out) possible_ = false;
    if (role == Buffer::Role::local) local(s, around.simd);
    if (s.kind == K::load && around.simd && role == Buffer::Role::in) ++loads_[s.buffer];
    if (s.kind == K::store && around.simd && role == Buffer::Role::out) stores_ = true;
  }
  if (!s.simd) return;
  const Axis& a = s.axes.back();
  const Axis* tiles = tiled_axis(k_, a);
  int64_t n = extent_value(tiles ? tiles->extent : a.extent, sizes_.data());
  if (tiles) n = std::min(n, extent_value(tiles->by, sizes_.data()));
  even_ = even_ && around.depth <= 1 && (longest_ < 0 || (longest_ == n && tile_ == a.of));
  nested_ = nested_ || s.axes.size() > 1;
  several_ = several_ || around.depth > 0;
  tile_ = a.of;
  longest_ = std::max(longest_, n);
  ++loops_;
}

void CudaRows::local(const Stmt& s, const Stmt* simd) {
  if (!simd || simd->axes.back().of != kNoRef) return static_cast<void>(possible_ = false);
  // For each term of the address: axis of the loop, stride, extent.
  std::vector<std::array<int64_t, 3>> at;
  for (const Term& t : s.address) {
    int64_t axis = -1;
    for (size_t a = 0; a < simd->axes.size(); ++a)
      if (simd->axes[a].var == t.var) axis = static_cast<int64_t>(a);
    if (axis < 0) return static_cast<void>(possible_ = false);
    const Extent& e = simd->axes[static_cast<size_t>(axis)].extent;
    at.push_back({axis, t.size < 0 ? t.factor : t.factor * sizes_[t.size], extent_value(e, sizes_.data())});
  }
  std::sort(at.begin(), at.end());
  auto [it, is_new] = locals_.try_emplace(s.buffer, at);
  if (!is_new && it->second != at) possible_ = false;
  even_ = even_ && at.size() == 1 && at[0][1] == 1;
}

int64_t bytes_of_locals(const Kernel& k, const CudaSchedule& s, std::span<const int64_t> sizes) {
  const int64_t own = int64_t{s.vector} * s.block, step = own * s.cluster;
  int64_t bytes = 0;
  for (const Buffer& b : k.buffers) {
    if (b.role != Buffer::Role::local) continue;
    const int64_t length = extent_value(b.length, sizes.data());
    bytes += s.cluster > 1 ? ceil_div(length, step) * own * size_of(b.type)
                           : (length * size_of(b.type) + 15) / 16 * 16;
  }
  return bytes;
}

CudaDecision schedule_rows(const CudaRows& rows, const CudaDevice& device, int relax_level, bool joined,
                           const CudaSchedule& start) {
  return RowSchedule(rows, device, relax_level, joined, start).decide();
}

}  // namespace tenon::jit
