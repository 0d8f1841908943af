// Regions of launches: which launches run together, that each iteration runs once, and what a fault leaves undone. Steps that a plan
// joins are in tests/unit/runtime/join_steps_test.cc.
#include "backends/cpu/regions.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <set>

#include "jit/schedule/schedule.h"

namespace tenon {
namespace {

int current_thread = 0;  // as Backwards numbers them

// Runs one range after the other on the calling thread, the last one first, on as many threads as asked for.
class Backwards final : public Parallel {
 public:
  int regions = 0;
  int threads() const override { return 64; }
  void run(int64_t n, int most, RangeFn fn, void* arg) override {
    ++regions;
    for (int t = most; t-- > 0;)
      if (n * t / most < n * (t + 1) / most) fn(arg, current_thread = t, n * t / most, n * (t + 1) / most);
  }
};

// Runs everything on one thread, as a host does whose threads are busy.
class Alone final : public Parallel {
 public:
  int threads() const override { return 1; }
  void run(int64_t n, int, RangeFn fn, void* arg) override { fn(arg, 0, 0, n); }
};

// A kernel that counts in its last buffer how often each iteration ran. Its first size is its number; it appends the number to a log
// when it runs its first iteration.
std::vector<int64_t>* log_of_runs = nullptr;
void count(void* const* buffers, const int64_t* sizes, char*, int64_t begin, int64_t end) {
  if (begin == 0) log_of_runs->push_back(sizes[0]);
  for (int64_t i = begin; i < end; ++i) ++static_cast<int32_t*>(buffers[sizes[1] - 1])[i];
}
void fail(void* const* buffers, const int64_t* sizes, char*, int64_t, int64_t) {
  log_of_runs->push_back(sizes[0]);
  *static_cast<int32_t*>(buffers[sizes[1]]) = 1;
}
// Tells which scratch memory each thread has.
std::vector<std::set<char*>> scratch_of_thread;
void scribble(void* const* buffers, const int64_t* sizes, char* scratch, int64_t begin, int64_t end) {
  scratch_of_thread[static_cast<size_t>(current_thread)].insert(scratch);
  count(buffers, sizes, scratch, begin, end);
}

// Launches whose buffers are ints of one memory; a buffer is a position there, negative: a temporary.
class RegionsTest : public testing::Test {
 protected:
  static constexpr int64_t kIterations = 100;
  struct Use {
    int buffer;
    bool writes = false;
  };
  void SetUp() override { log_of_runs = &log; }
  Launch& add(std::vector<Use> uses, int step = 0, int64_t work = 10'000) {
    Launch& l = launches.emplace_back();
    l.function = count;
    l.iterations = kIterations;
    l.work = work;
    l.threads = static_cast<int>(std::clamp<int64_t>(work / jit::kWorkPerThread, 1, kThreads));
    l.sizes = {static_cast<int64_t>(placed.size()), static_cast<int64_t>(uses.size())};
    for (const Use& u : uses) {
      const int64_t bytes = kIterations * static_cast<int64_t>(sizeof(int32_t));
      if (u.buffer < 0) {
        l.arguments.list.push_back({-1, (-u.buffer - 1) * bytes, bytes, u.writes});
        l.arguments.temps = std::max(l.arguments.temps, -u.buffer * bytes);
      } else {
        l.arguments.list.push_back({u.buffer, 0, 0, u.writes});
      }
    }
    placed.push_back({&l, step, 0});
    return l;
  }
  // Buffers are spaces of their own; `inputs` may be inputs of the program.
  Regions arranged(std::vector<int> inputs = {}) {
    std::vector<BufferSpan> spans;
    for (int b = 0; b < kBuffers; ++b) spans.push_back({b + 1, 0, 0, std::ranges::count(inputs, b) > 0});
    return Regions(placed, spans, kThreads);
  }
  Status run(const Regions& regions) { return run(regions, parallel); }
  Status run(const Regions& regions, Parallel& on) {
    memory.assign(kBuffers * kIterations, 0);
    std::vector<void*> buffers;
    for (int b = 0; b < kBuffers; ++b) buffers.push_back(&memory[static_cast<size_t>(b * kIterations)]);
    scratch.assign(static_cast<size_t>(regions.scratch_bytes()), 0);
    return regions.run(buffers.data(), scratch.data(), {on});
  }
  // Whether each iteration of the launches that write these buffers ran once, and no other buffer was written.
  void expect_written(int first, int last) const {
    for (int b = 0; b < kBuffers; ++b)
      for (int64_t i = 0; i < kIterations; ++i)
        ASSERT_EQ(memory[static_cast<size_t>(b * kIterations + i)], b >= first && b <= last) << b << " " << i;
  }

  static constexpr int kThreads = 3, kBuffers = 40;
  std::deque<Launch> launches;
  std::vector<PlacedLaunch> placed;
  std::vector<int32_t> memory;
  std::vector<int64_t> log;
  std::vector<char> scratch;
  Backwards parallel;
};

TEST_F(RegionsTest, IndependentLaunchesShareARegionAndEachIterationRunsOnce) {
  for (int i = 0; i < 20; ++i) {
    Launch& l = add({{0}, {i + 1, true}}, i, 1 + 997 * i % 13 * 3000);
    l.function = scribble;
    l.scratch = 64;
  }
  scratch_of_thread.assign(kThreads, {});
  const Regions regions = arranged();
  EXPECT_EQ(regions.count(), 1u);
  EXPECT_EQ(regions.scratch_bytes(), 64 * kThreads);
  ASSERT_TRUE(run(regions).ok());
  EXPECT_EQ(parallel.regions, 1);
  expect_written(1, 20);
  for (int t = 0; t < kThreads; ++t)
    EXPECT_EQ(scratch_of_thread[static_cast<size_t>(t)],
              std::set<char*>{&scratch[static_cast<size_t>(64 * t)]});
}

// A scatter in place: its first kernel copies the operand to the result.
TEST_F(RegionsTest, ACopyOfABufferToItselfDoesNotRun) {
  for (const int beside : {0, 3}) {
    placed.clear();
    add({{0}, {0, true}}).arguments.copies = true;
    add({{1}, {2, true}}).arguments.copies = true;
    for (int i = 0; i < beside; ++i) add({{0}, {3 + i, true}}, 1 + i);
    const Regions regions = arranged();
    ASSERT_TRUE(run(regions).ok());
    expect_written(2, 2 + beside);
  }
}

TEST_F(RegionsTest, FewerThreadsRunAllPieces) {
  for (int i = 0; i < 20; ++i) add({{0}, {i + 1, true}}, i, 1 + 997 * i % 13 * 3000);
  Alone alone;
  ASSERT_TRUE(run(arranged(), alone).ok());
  expect_written(1, 20);
}

TEST_F(RegionsTest, ALaunchOnOneThreadTakesItsScratchMemoryOnce) {
  add({{0}, {1, true}}, 0, 1).scratch = 1 << 20;
  EXPECT_EQ(arranged().scratch_bytes(), 1 << 20);
  add({{1}, {2, true}}, 1, kThreads * jit::kWorkPerThread).scratch = 64;
  EXPECT_EQ(arranged().count(), 2u);
  EXPECT_EQ(arranged().scratch_bytes(), 1 << 20);
}

TEST_F(RegionsTest, OneByOne) {
  add({{0}, {1, true}}, 0);
  add({{0}, {2, true}}, 0, kThreads * jit::kWorkPerThread).scratch = 64;
  const std::vector<Launch> of_step(launches.begin(), launches.end());
  const Regions regions = Regions::one_by_one(of_step);
  EXPECT_EQ(regions.count(), 2u);
  EXPECT_EQ(regions.scratch_bytes(), 64 * kThreads);
  ASSERT_TRUE(run(regions).ok());
  EXPECT_EQ(log, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(parallel.regions, 1);
  expect_written(1, 2);
}

TEST_F(RegionsTest, ChainsRunSideBySide) {
  for (int i = 0; i < 5; ++i) {
    add({{0}, {2 * i + 1, true}}, 2 * i);
    add({{2 * i + 1}, {2 * i + 2, true}}, 2 * i + 1);
  }
  EXPECT_EQ(arranged().count(), 2u);
  ASSERT_TRUE(run(arranged()).ok());
  expect_written(1, 10);
  const auto at = [&](int64_t n) { return std::ranges::find(log, n) - log.begin(); };
  for (int i = 0; i < 5; ++i) EXPECT_LT(at(2 * i), at(2 * i + 1));
}

TEST_F(RegionsTest, LaunchesWaitForThoseThatUseTheirMemory) {
  add({{0}, {1, true}}, 0);  // region 0
  add({{1}, {2, true}}, 1);  // 1: reads what 0 wrote
  add({{0}, {1, true}}, 2);  // 2: writes what 1 reads
  add({{3}, {0, true}}, 3);  // 3: writes what 2 reads
  add({{3}, {2, true}}, 4);  // 2: writes what 1 wrote
  add({{4}, {5, true}}, 5);  // 0
  const Regions regions = arranged();
  EXPECT_EQ(regions.count(), 4u);
  ASSERT_TRUE(run(regions).ok());
  const auto at = [&](int64_t n) { return std::ranges::find(log, n) - log.begin(); };
  EXPECT_LT(at(0), at(1));
  EXPECT_LT(at(1), at(2));
  EXPECT_LT(at(2), at(3));
  EXPECT_LT(at(1), at(4));
  EXPECT_LT(at(5), at(1));
}

TEST_F(RegionsTest, LaunchesOfOneStepWriteParts) {
  add({{0}, {1, true}}, 0);
  add({{2}, {1, true}}, 0);
  EXPECT_EQ(arranged().count(), 1u);
  add({{2}, {1, true}}, 0).arguments.writes_again = true;
  EXPECT_EQ(arranged().count(), 2u);
  add({{1}, {3, true}}, 1);
  add({{4}, {1, true}}, 2);
  add({{5}, {1, true}}, 2);
  EXPECT_EQ(arranged().count(), 4u);
}

TEST_F(RegionsTest, TemporariesOfStepsLieApart) {
  for (int step = 0; step < 2; ++step) {
    add({{0}, {-1, true}}, step);
    add({{-1}, {1 + step, true}}, step);
  }
  EXPECT_EQ(arranged().count(), 2u);
  EXPECT_EQ(arranged().scratch_bytes(), 800);
  add({{0}, {-1, true}}, 1);  // the same memory of its step
  EXPECT_EQ(arranged().count(), 3u);
}

TEST_F(RegionsTest, LargeLaunchesRunAloneAndInOrder) {
  add({{0}, {1, true}}, 0);
  add({{0}, {2, true}}, 1, 100 * jit::kWorkPerThread);
  add({{0}, {3, true}}, 2);
  EXPECT_EQ(arranged().count(), 3u);
  ASSERT_TRUE(run(arranged()).ok());
  EXPECT_EQ(log, (std::vector<int64_t>{0, 1, 2}));
}

TEST_F(RegionsTest, AFaultLeavesInputsAsTheyAre) {
  const auto faults = std::make_shared<const std::vector<std::string>>(1, "out of range");
  Launch& bad = add({{0}, {1, true}}, 0);
  bad.function = fail;
  bad.iterations = 1;
  bad.faults = faults;
  add({{0}, {2, true}}, 1);  // a result
  add({{3}, {3, true}}, 2);  // an update of an input
  const Regions regions = arranged({0, 3});
  EXPECT_EQ(regions.count(), 2u);
  const Status status = run(regions);
  EXPECT_EQ(status.code(), Code::invalid);
  EXPECT_NE(status.message().find("out of range"), std::string::npos);
  EXPECT_EQ(std::ranges::count(log, 2), 0);
  EXPECT_EQ(std::accumulate(&memory[3 * kIterations], &memory[4 * kIterations], 0), 0);
  EXPECT_EQ(std::ranges::count(log, 1), 1);
}

// Ranges of the workspace that overlap in part.
TEST_F(RegionsTest, BytesDecide) {
  std::vector<BufferSpan> spans{{0, 0, 64}, {0, 64, 128}, {0, 32, 96}, {1, 0, 0}};
  const auto count_of = [&] { return Regions(placed, spans, kThreads).count(); };
  add({{3}, {0, true}}, 0);
  add({{3}, {1, true}}, 1);
  EXPECT_EQ(count_of(), 1u);
  add({{3}, {2, true}}, 2);
  EXPECT_EQ(count_of(), 2u);
  add({{1}, {3, true}}, 3);
  EXPECT_EQ(count_of(), 3u);
  add({{0}, {3, true}}, 4);
  EXPECT_EQ(count_of(), 4u);
}

}  // namespace
}  // namespace tenon
