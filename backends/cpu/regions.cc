// See regions.h. A launch runs one level behind every launch that it waits for: those that wrote what it reads, and those that
// read or wrote what it writes. The launches of a level are a region.
#include "backends/cpu/regions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "jit/schedule/schedule.h"
#include "src/base/stack_array.h"

namespace tenon {
namespace {

// A launch with this many times the work that pays for waking a thread gains nothing from a common region. It runs alone, in the
// order of the steps, so that the next launch finds its results in the caches.
constexpr int64_t kLarge = 32;
constexpr int64_t kCall = 256;  // the cost of calling a kernel, in vector operations

constexpr int kTemporaries = -1;  // the space of temporaries

int64_t launch_work(const Launch& l) { return l.work + kCall; }
bool runs_alone(const Launch& l) { return l.work >= kLarge * jit::kWorkPerThread; }

// The levels of the launches that used each byte so far.
class MemoryUses {
 public:
  // The bytes up to `end`, all used by the same launches. -1: none.
  struct Range {
    int64_t end = 0;
    int read = -1, written = -1;  // the highest levels of launches
    int step = -1;                // of the launches that wrote last
    int written_before = -1;      // the highest level of launches of the steps before it that wrote
    // The highest level that a writing launch of step `by` must follow. With `again`, the launch also follows earlier launches of its own
    // step, because it writes their elements again.
    int before_write(int by, bool again) const {
      return std::max(read, by == step && !again ? written_before : written);
    }
    void write(int by, int level) {
      if (by != step) written_before = written;
      step = by;
      written = std::max(written, level);
    }
  };
  // Calls each(range) for every range within the span; together the ranges cover it.
  template <class Each>
  void in(const BufferSpan& span, const Each& each) {
    if (span.space > 0) {
      const auto space = static_cast<size_t>(span.space);
      if (whole_.size() <= space) whole_.resize(2 * space + 1);
      return each(whole_[space]);
    }
    split(span.space, span.begin);
    split(span.space, span.end);
    for (int64_t at = span.begin; at < span.end;) {
      auto found = ranges_.lower_bound({span.space, at});
      const bool known = found != ranges_.end() && found->first.first == span.space;
      const int64_t next = known ? std::min(found->first.second, span.end) : span.end;
      if (next > at) found = ranges_.emplace_hint(found, std::pair(span.space, at), Range{next});
      each(found->second);
      at = found->second.end;
    }
  }

 private:
  void split(int space, int64_t at) {
    const auto next = ranges_.lower_bound({space, at});
    if (next == ranges_.begin()) return;
    auto& [start, range] = *std::prev(next);
    if (start.first != space || range.end <= at) return;
    const Range rest = range;
    range.end = at;
    ranges_.emplace_hint(next, std::pair(space, at), rest);
  }
  std::vector<Range> whole_;  // by space
  std::map<std::pair<int, int64_t>, Range>
      ranges_;  // of the workspace and of temporaries, by space and first byte
};

// Finds the levels of launches, one after the other.
class Levels {
 public:
  Levels(std::span<const BufferSpan> spans, std::span<const int64_t> temps_of)
      : spans_(spans), temps_of_(temps_of) {}

  int next(const PlacedLaunch& placed) {
    const Launch& l = *placed.launch;
    int level = runs_alone(l) ? highest_ + 1 : lowest_;
    bool writes_input = false;
    for (const auto& a : l.arguments.list) {
      const BufferSpan span = span_of(a, placed);
      uses_.in(span, [&](const MemoryUses::Range& r) {
        const int wait = a.writes ? r.before_write(placed.step, l.arguments.writes_again) : r.written;
        level = std::max(level, wait + 1);
      });
      writes_input = writes_input || (a.writes && span.of_input);
    }
    // A fault leaves the inputs as they are.
    if (writes_input) level = std::max(level, faulting_ + 1);
    for (const auto& a : l.arguments.list)
      uses_.in(span_of(a, placed), [&](MemoryUses::Range& r) {
        if (a.writes)
          r.write(placed.step, level);
        else
          r.read = std::max(r.read, level);
      });
    if (l.faults) faulting_ = std::max(faulting_, level);
    highest_ = std::max(highest_, level);
    if (runs_alone(l)) lowest_ = level + 1;
    return level;
  }

 private:
  BufferSpan span_of(const jit::Arguments::Argument& a, const PlacedLaunch& placed) const {
    if (a.position >= 0) return spans_[static_cast<size_t>(placed.first_buffer + a.position)];
    const int64_t begin = temps_of_[static_cast<size_t>(placed.step)] + a.offset;
    return {kTemporaries, begin, begin + a.bytes};
  }

  std::span<const BufferSpan> spans_;
  std::span<const int64_t> temps_of_;
  MemoryUses uses_;
  int lowest_ = 0;     // the lowest level that the next launch may have
  int highest_ = -1;   // the highest level so far
  int faulting_ = -1;  // the highest level of a launch that may fault
};

}  // namespace

Regions::Regions(std::vector<PlacedLaunch> launches, std::span<const BufferSpan> spans, int threads) {
  std::vector<int64_t> temps_of;  // per step: the offset of its temporaries in the scratch memory
  for (const PlacedLaunch& p : launches) {
    temps_of.resize(std::max(temps_of.size(), static_cast<size_t>(p.step) + 1));
    int64_t& bytes = temps_of[static_cast<size_t>(p.step)];
    bytes = std::max(bytes, p.launch->arguments.temps);
  }
  for (int64_t& of_step : temps_of) temps_ += std::exchange(of_step, temps_);
  std::vector<std::vector<PlacedLaunch>> regions;
  Levels levels(spans, temps_of);
  for (const PlacedLaunch& p : launches) {
    const auto level = static_cast<size_t>(levels.next(p));
    regions.resize(std::max(regions.size(), level + 1));
    regions[level].push_back(p);
  }
  for (const auto& region : regions) add_region(region, temps_of, threads);
}

Regions Regions::one_by_one(std::span<const Launch> launches) {
  Regions regions;
  constexpr int64_t kFirst = 0;  // the temporaries of the step lie at the start of the scratch memory
  for (const Launch& l : launches) regions.temps_ = std::max(regions.temps_, l.arguments.temps);
  for (const Launch& l : launches) {
    const PlacedLaunch placed{&l};
    regions.add_region(std::span(&placed, 1), std::span(&kFirst, 1), l.threads);
  }
  return regions;
}

void Regions::add_region(std::span<const PlacedLaunch> launches, std::span<const int64_t> temps_of,
                         int threads) {
  int64_t work = 0, most = 1, scratch = 0;
  for (const PlacedLaunch& p : launches) {
    work += launch_work(*p.launch);
    most = std::max<int64_t>(most, p.launch->threads);
    scratch = std::max(scratch, p.launch->scratch);
  }
  if (launches.size() > 1) most = std::max(most, (work + jit::kWorkPerThread / 2) / jit::kWorkPerThread);
  const int slots = static_cast<int>(std::min<int64_t>(most, threads));
  scratch_ = std::max(scratch_, slots * scratch);
  // A launch with work for all threads is divided evenly, so that the next one that walks along its results finds them in the
  // caches of the same cores. The rest is divided as a whole.
  const auto is_even = [&](const Launch& l) { return l.threads >= slots; };
  int64_t rest = 0;
  for (const PlacedLaunch& p : launches) rest += is_even(*p.launch) ? 0 : launch_work(*p.launch);
  const auto first = static_cast<uint32_t>(launches_.size());
  regions_.push_back({first, static_cast<uint32_t>(launches.size()), static_cast<uint32_t>(slots_.size()),
                      slots, false, scratch});
  for (int slot = 0; slot < slots; ++slot) {
    slots_.push_back(static_cast<uint32_t>(pieces_.size()));
    int64_t before = 0;  // work of the rest
    for (uint32_t i = 0; i < launches.size(); ++i) {
      const Launch& l = *launches[i].launch;
      const auto start = [&](int of) {
        if (is_even(l)) return l.iterations * of / slots;
        const int64_t share = std::clamp<int64_t>(rest * of / slots - before, 0, launch_work(l));
        return l.iterations * share / launch_work(l);
      };
      if (start(slot) < start(slot + 1)) pieces_.push_back({first + i, start(slot), start(slot + 1)});
      if (!is_even(l)) before += launch_work(l);
    }
  }
  for (const PlacedLaunch& p : launches) {
    const Launch& l = *p.launch;
    regions_.back().may_fail |= l.faults != nullptr;
    launches_.push_back({l.function, l.faults.get(), static_cast<uint32_t>(sizes_.size()),
                         static_cast<uint32_t>(arguments_.size()),
                         static_cast<uint32_t>(l.arguments.list.size()), l.arguments.copies});
    sizes_.insert(sizes_.end(), l.sizes.begin(), l.sizes.end());
    for (const auto& a : l.arguments.list) {
      const bool temporary = a.position < 0;
      arguments_.push_back({temporary, temporary ? temps_of[static_cast<size_t>(p.step)] + a.offset
                                                 : p.first_buffer + a.position});
    }
  }
}

int64_t Regions::bytes() const {
  return static_cast<int64_t>(launches_.capacity() * sizeof(Entry) + sizes_.capacity() * sizeof(int64_t) +
                              arguments_.capacity() * sizeof(Argument) + pieces_.capacity() * sizeof(Piece) +
                              slots_.capacity() * sizeof(uint32_t) + regions_.capacity() * sizeof(Region));
}

bool Regions::is_done(const Entry& launch, void* const* buffers) const {
  if (!launch.copies) return false;
  const Argument &from = arguments_[launch.argument], &to = arguments_[launch.argument + 1];
  return !from.is_temporary && !to.is_temporary && buffers[from.at] == buffers[to.at];
}

// A region that runs.
struct Regions::Call {
  const Regions& regions;
  const Region& region;
  void* const* buffers;
  char* scratch;
  int32_t* faults;  // of its launches, if one may fail

  static void run(void* arg, int thread, int64_t begin, int64_t end) {
    const Call& call = *static_cast<const Call*>(arg);
    const Regions& r = call.regions;
    const size_t slot = call.region.first_slot + static_cast<size_t>(begin),
                 last = call.region.first_slot + static_cast<size_t>(end);
    const size_t stop = last < r.slots_.size() ? r.slots_[last] : r.pieces_.size();
    for (size_t i = r.slots_[slot]; i < stop; ++i) call.run(r.pieces_[i], thread);
  }
  void run(const Piece& piece, int thread) const {
    const Entry& l = regions.launches_[piece.launch];
    if (regions.is_done(l, buffers)) return;
    void* arguments[kMaxBuffers + 1];
    const Argument* from = &regions.arguments_[l.argument];
    for (uint32_t i = 0; i < l.arguments; ++i)
      arguments[i] = from[i].is_temporary ? scratch + from[i].at : buffers[from[i].at];
    arguments[l.arguments] = l.faults ? &faults[piece.launch - region.first_launch] : nullptr;
    l.function(arguments, regions.sizes_.data() + l.size, scratch + regions.temps_ + thread * region.scratch,
               piece.begin, piece.end);
  }
};

Status Regions::run(void* const* buffers, char* scratch, const RunOn& on) const {
  for (const Region& region : regions_) {
    if (region.launches == 1 && is_done(launches_[region.first_launch], buffers)) continue;
    const uint32_t watched = region.may_fail ? region.launches : 0;
    StackArray<int32_t, 64> faults(watched);
    std::fill(faults.begin(), faults.end(), 0);
    Call call{*this, region, buffers, scratch, faults.data()};
    if (region.slots == 1)
      Call::run(&call, 0, 0, 1);
    else
      on.parallel.run(region.slots, region.slots, Call::run, &call);
    for (uint32_t i = 0; i < watched; ++i)
      if (faults[i] != 0)
        return invalid(launches_[region.first_launch + i].faults->at(static_cast<size_t>(faults[i]) - 1));
  }
  return {};
}

}  // namespace tenon
