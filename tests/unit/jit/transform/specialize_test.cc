// Kernels with their sizes as constants give the same bits as with sizes as arguments, in the interpreter and as machine code. Also
// programs whose hot kernels are exchanged while threads run them.
#include "jit/transform/specialize.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <set>
#include <thread>

#include "backends/cpu/hot_kernel.h"
#include "src/base/log.h"
#include "tests/support/kernel_gen.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

const char kRows[] =
    "graph @rows(%x: f32[N,M], %b: f32[M]) {\n  %a = add(%x, %b)\n  %s = softmax(%a){axis=-1}\n"
    "  %c = sum(%s){axes=[0]}\n  %y = mul(%a, %c)\n  return %y, %s\n}\n";

struct Rows {
  explicit Rows(SpecializeMode mode) {
    auto graph = parse_graph(kRows);
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    ProgramOptions options;
    options.specialize = mode;
    auto made = Program::make(*graph, options, {});
    EXPECT_TRUE(made.ok()) << made.status().message();
    program = *made;
  }
  // Runs at these sizes and returns the bytes of both outputs.
  std::vector<std::vector<std::byte>> run(int64_t n, int64_t m) const {
    HostTensor x = random_tensor(DType::f32, {n, m}, 1), b = random_tensor(DType::f32, {m}, 2);
    HostTensor y(DType::f32, {n, m}), s(DType::f32, {n, m});
    const Tensor in[] = {tensor_of(x), tensor_of(b)}, out[] = {tensor_of(y), tensor_of(s)};
    const Status status = program->run(in, out);
    EXPECT_TRUE(status.ok()) << status.message();
    auto bytes = [](const HostTensor& t) {
      return std::vector<std::byte>(reinterpret_cast<const std::byte*>(t.bytes.data()),
                                    reinterpret_cast<const std::byte*>(t.bytes.data()) + t.bytes.size());
    };
    return {bytes(y), bytes(s)};
  }
  std::shared_ptr<Program> program;
};

// Sets limits for the duration of a test.
struct Limits {
  explicit Limits(SpecializeLimits limits) { HotKernel::set_limits(limits); }
  ~Limits() { HotKernel::set_limits({}); }
};
SpecializeLimits at_once() {
  SpecializeLimits limits;
  limits.calls = 4, limits.spent = std::chrono::nanoseconds(0), limits.turns = 8, limits.rest = 0;
  return limits;
}

TEST(WithSizes, TakesNoSizesAnyMore) {
  auto kernel = jit::parse_kernel(
      "kernel @k(N, M; in %x: f32, out %y: f32; local %row: f32[M]) {\n  par %i in N {\n    for simd %j in "
      "2*M {\n"
      "      %v = load %x[M*%i + %j]\n      store %y[2*M*%i + %j], %v\n    }\n    %n = size M\n"
      "    %f = cast.f32 %n\n    store %y[2*M*%i], %f\n  }\n}\n");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const int64_t sizes[] = {3, 5};
  EXPECT_EQ(jit::print(jit::with_sizes(*kernel, sizes)),
            "kernel @k_3_5(; in %x: f32, out %y: f32; local %row: f32[5]) {\n  par %i in 3 {\n    for simd "
            "%j in 10 {\n"
            "      %v = load %x[5*%i + %j]\n      store %y[10*%i + %j], %v\n    }\n    %n = const.i64 5\n"
            "    %f = cast.f32 %n\n    store %y[10*%i], %f\n  }\n}\n");
}

TEST(Specialize, TheSameBits) {
  const Rows off(SpecializeMode::off), wait(SpecializeMode::wait);
  for (int64_t n : {0, 1, 2, 7, 64})
    for (int64_t m : {0, 1, 3, 8, 31, 257, 1024}) EXPECT_EQ(off.run(n, m), wait.run(n, m)) << n << "," << m;
  EXPECT_EQ(off.program->stats().specialized, 0);
  EXPECT_GT(wait.program->stats().specialized, 30);
}

TEST(Specialize, HotKernelsAreExchangedWhileThreadsRun) {
  const Limits limits(at_once());
  const Rows off(SpecializeMode::off), hot(SpecializeMode::background);
  const auto want = off.run(33, 129);
  std::atomic<bool> enough = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!enough) EXPECT_EQ(hot.run(33, 129), want);
    });
  const int64_t kernels = hot.program->stats().kernels;
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  ProgramStats s;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    s = hot.program->stats();
  } while (s.specialized + s.specialize_refused < kernels && std::chrono::steady_clock::now() < stop);
  enough = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(s.specialized + s.specialize_refused, kernels);
  EXPECT_EQ(hot.run(33, 129), want);
}

TEST(Specialize, ColdKernelsAreLeftAlone) {
  const Rows hot(SpecializeMode::background);
  for (int i = 0; i < 100; ++i) hot.run(2, 3);
  EXPECT_EQ(hot.program->stats().specialized, 0);
  EXPECT_EQ(hot.program->stats().specialize_refused, 0);
}

TEST(Specialize, NoMoreKernelsThanTheLimit) {
  SpecializeLimits few = at_once();
  few.kernels = 2;
  const Limits limits(few);
  const Rows wait(SpecializeMode::wait);
  wait.run(4, 5);
  EXPECT_EQ(wait.program->stats().specialized, 2);
  wait.run(4, 6);
  EXPECT_EQ(wait.program->stats().specialized, 2);
  EXPECT_GT(wait.program->stats().specialize_refused, 0);
}

TEST(Specialize, RoomIsFreeAgainWhenPlansAreGone) {
  SpecializeLimits few = at_once();
  few.kernels = 4;
  const Limits limits(few);
  for (int i = 0; i < 3; ++i) {
    const Rows wait(SpecializeMode::wait);
    wait.run(4, 5 + i);
    EXPECT_EQ(wait.program->stats().specialized, std::min<int64_t>(4, wait.program->stats().kernels));
  }
}

// ---- the log ----

using testing::MatchesRegex;

// Collects the log lines of the topic "specialize" while it lives. The storage is static, since a thread may log late.
class Lines {
 public:
  Lines() {
    std::lock_guard lock(mutex_);
    all_.clear();
    set_logger(
        [](void*, const char* topic, const char* message) {
          std::lock_guard lock(mutex_);
          if (std::string_view(topic) == "specialize") all_.emplace_back(message);
        },
        nullptr);
  }
  ~Lines() { set_logger(nullptr, nullptr); }

  static std::vector<std::string> all() {
    std::lock_guard lock(mutex_);
    return all_;
  }
  static std::vector<std::string> of(const std::string& event) {
    std::vector<std::string> lines = all();
    std::erase_if(lines, [&](const std::string& l) { return !l.starts_with(event + ","); });
    return lines;
  }

 private:
  static inline std::mutex mutex_;
  static inline std::vector<std::string> all_;
};

TEST(SpecializeLog, SaysWhatIsKeptAndWhatTheLimitsRefuse) {
  SpecializeLimits few = at_once();
  few.kernels = 2;
  {
    const Limits limits(few);
    const Lines lines;
    const Rows wait(SpecializeMode::wait);
    wait.run(4, 5);
    const size_t kernels = static_cast<size_t>(wait.program->stats().kernels);
    ASSERT_GT(kernels, 2u);
    const std::vector<std::string> all = Lines::all();
    ASSERT_EQ(all.size(), 1 + kernels) << "a header and a line for each kernel";
    EXPECT_EQ(all[0], "event,kernel,sizes,why");
    for (size_t i = 1; i <= 2; ++i)
      EXPECT_THAT(all[i], MatchesRegex("kept,[A-Za-z0-9_]+,[145 ]+,asked to wait for it"));
    for (size_t i = 3; i <= kernels; ++i)
      EXPECT_THAT(all[i], MatchesRegex("refused,[A-Za-z0-9_]+,[145 ]+,2 kernels are specialized already"));
    EXPECT_THAT(all, testing::Contains(testing::HasSubstr(",4 5,")));
  }
  few.kernels = 1, few.bytes = 0;
  const Limits limits(few);
  const Lines lines;
  const Rows wait(SpecializeMode::wait);
  wait.run(4, 5);
  for (const std::string& l : Lines::of("refused"))
    EXPECT_THAT(l, MatchesRegex("refused,[A-Za-z0-9_]+,[145 ]+,specialized kernels have 0 bytes already"));
  EXPECT_EQ(static_cast<int64_t>(Lines::of("refused").size()), wait.program->stats().kernels);
}

// A hot kernel is compiled first. After the turns it is kept or dropped, in agreement with the times in the log line.
TEST(SpecializeLog, SaysWhatTheTurnsDecided) {
  const Limits limits(at_once());
  const Lines lines;
  const Rows hot(SpecializeMode::background);
  const size_t kernels = static_cast<size_t>(hot.program->stats().kernels);
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Lines::of("kept").size() + Lines::of("dropped").size() < kernels &&
         std::chrono::steady_clock::now() < stop)
    hot.run(33, 129);
  const std::vector<std::string> all = Lines::all();
  ASSERT_EQ(all.size(), 1 + 2 * kernels) << testing::PrintToString(all);
  EXPECT_EQ(all[0], "event,kernel,sizes,why");
  std::set<std::string> compiled;
  int64_t kept = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    char event[16], kernel[200], sizes[32];
    long long special = 0, general = 0;
    if (all[i].starts_with("compiled,")) {
      ASSERT_EQ(std::sscanf(all[i].c_str(), "compiled,%199[^,],%31[^,],hot", kernel, sizes), 2) << all[i];
      EXPECT_TRUE(all[i].ends_with(",hot")) << all[i];
      EXPECT_TRUE(compiled.insert(kernel).second) << "twice: " << all[i];
      continue;
    }
    ASSERT_EQ(std::sscanf(all[i].c_str(),
                          "%15[^,],%199[^,],%31[^,],\"%lld ns with constants, %lld ns with arguments\"",
                          event, kernel, sizes, &special, &general),
              5)
        << all[i];
    EXPECT_TRUE(compiled.contains(kernel)) << "before it was compiled: " << all[i];
    EXPECT_THAT(std::string(sizes), MatchesRegex("(33 129|129 33)( [0-9]+)?"));
    EXPECT_GT(special, 0);
    EXPECT_EQ(event, std::string(special <= 0.97 * static_cast<double>(general) ? "kept" : "dropped"));
    kept += event == std::string("kept");
  }
  EXPECT_EQ(kept, hot.program->stats().specialized);
  EXPECT_EQ(static_cast<int64_t>(kernels) - kept, hot.program->stats().specialize_refused);
}

}  // namespace
}  // namespace tenon
