// The cache of plans: plans and refusals are found, made once, bounded, and freed when no thread uses them. Programs whose sizes never
// repeat stay small.
#include "src/runtime/plan/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "src/base/log.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

// The key of a plan for one thread.
std::array<int64_t, 2> key_of(int64_t n) { return {n, 1}; }

// Makes plans of a graph without steps, except for sizes that are `refused`, and counts them.
struct Maker {
  Graph graph = *parse_graph("graph @f(%x: f32[N]) {\n return %x\n}");
  PlanSource source;
  std::atomic<int> made{0};
  bool (*refused)(int64_t n);
  explicit Maker(bool (*refuses)(int64_t) = [](int64_t) { return false; }) : refused(refuses) {
    source.graph = &graph;
  }
  Result<std::unique_ptr<Plan>> operator()(int64_t n) {
    ++made;
    if (refused(n)) return unsupported("no plan for " + std::to_string(n));
    return Plan::make(source, {n}, 1);
  }
};

Result<PlanCache::Use> get(PlanCache& cache, Maker& maker, int64_t n) {
  if (PlanCache::Use use = cache.find(key_of(n))) return use;
  return cache.find_or_make(key_of(n), [&] { return maker(n); });
}

TEST(PlanCache, FindsWhatItMade) {
  PlanCache cache;
  Maker maker;
  for (int round = 0; round < 3; ++round)
    for (int64_t n = 0; n < 500; ++n) {
      auto use = get(cache, maker, n);
      ASSERT_TRUE(use.ok());
      ASSERT_EQ((*use)->symbols()[0], n);
    }
  EXPECT_EQ(maker.made, 500);
  for (int64_t n = 0; n < 500; ++n)
    EXPECT_TRUE(cache.find(key_of(n))) << n << " is not found without the lock";
  const PlanStats s = cache.stats();
  EXPECT_EQ(s.plans, 500);
  EXPECT_EQ(s.misses, 500);
  EXPECT_EQ(s.hits, 1500);
  EXPECT_EQ(s.evictions, 0);
  EXPECT_GT(s.bytes, 500 * static_cast<int64_t>(sizeof(Plan)));
}

TEST(PlanCache, KeepsItsLimits) {
  PlanCache cache({10, int64_t{1} << 30});
  Maker maker;
  for (int64_t n = 0; n < 1000; ++n) {
    ASSERT_TRUE(get(cache, maker, n).ok());
    ASSERT_TRUE(get(cache, maker, 5000).ok());  // used again and again, so it stays
    ASSERT_LE(cache.stats().plans, 10);
  }
  EXPECT_EQ(maker.made, 1001);
  EXPECT_EQ(cache.stats().evictions, 991);
  const int64_t one = cache.stats().bytes / 10;
  cache.set_limits({1000, 5 * one});
  EXPECT_EQ(cache.stats().plans, 5);
  EXPECT_LE(cache.stats().bytes, 5 * one);
  cache.set_limits({0, 0});
  EXPECT_EQ(cache.stats().plans, 1);
  EXPECT_EQ(cache.limits().plans, 1);
  EXPECT_EQ((*get(cache, maker, 7))->symbols()[0], 7);
  EXPECT_EQ(cache.stats().plans, 1);
  EXPECT_EQ(cache.newest()->symbols()[0], 7);
}

TEST(PlanCache, WhatRunsIsNotFreed) {
  PlanCache cache({1, 1});
  Maker maker;
  std::vector<PlanCache::Use> uses;  // more than the cells of one thread
  for (int64_t n = 0; n < 100; ++n) uses.push_back(std::move(*get(cache, maker, n)));
  EXPECT_EQ(cache.stats().plans, 1);
  EXPECT_EQ(cache.stats().evictions, 99);
  const int64_t all = cache.stats().bytes;
  for (int64_t n = 0; n < 100; ++n) EXPECT_EQ(uses[n]->symbols()[0], n);  // ASan sees a plan freed too early
  uses.clear();
  ASSERT_TRUE(get(cache, maker, 1000).ok());
  EXPECT_LT(cache.stats().bytes, all / 50) << "plans that nobody runs are still held";
}

TEST(PlanCache, FailureIsNotKept) {
  PlanCache cache;
  Maker maker;
  const int64_t n = 3;
  for (const Status& no : {invalid("no"), environment("not now"), Status(Code::internal, "a bug")}) {
    auto failed = cache.find_or_make(key_of(n), [&] { return Result<std::unique_ptr<Plan>>(no); });
    EXPECT_EQ(failed.status().code(), no.code());
    EXPECT_EQ(failed.status().message(), no.message());
  }
  EXPECT_THROW(
      {
        auto thrown =
            cache.find_or_make(key_of(n), []() -> Result<std::unique_ptr<Plan>> { throw std::bad_alloc(); });
      },
      std::bad_alloc);
  EXPECT_TRUE(get(cache, maker, n).ok());
  EXPECT_EQ(cache.stats().misses, 5);
  EXPECT_EQ(cache.stats().plans, 1);
  EXPECT_EQ(cache.stats().refusals, 0);
}

TEST(PlanCache, RefusalIsKept) {
  PlanCache cache;
  Maker maker([](int64_t n) { return n % 2 == 1; });
  for (int round = 0; round < 3; ++round)
    for (int64_t n = 0; n < 100; ++n) {
      const auto use = get(cache, maker, n);
      ASSERT_EQ(use.ok(), n % 2 == 0);
      if (use.ok()) continue;
      EXPECT_EQ(use.status().code(), Code::unsupported);
      EXPECT_EQ(use.status().message(), "no plan for " + std::to_string(n));
      EXPECT_EQ(cache.newest()->symbols()[0], round == 0 ? n - 1 : 98);  // a plan, not a refusal
    }
  EXPECT_EQ(maker.made, 100);
  const PlanStats s = cache.stats();
  EXPECT_EQ(s.plans, 50);
  EXPECT_EQ(s.refusals, 50);
  EXPECT_EQ(s.misses, 100);
  EXPECT_EQ(s.hits, 200);
  EXPECT_EQ(s.evictions, 0);
}

// The limits hold for plans and refusals together. A refusal is evicted like a plan, and then its size is tried again.
TEST(PlanCache, RefusalsAreBounded) {
  PlanCache cache({10, int64_t{1} << 30});
  Maker maker([](int64_t n) { return n > 0; });
  for (int64_t n = 1; n <= 1000; ++n) {
    ASSERT_FALSE(get(cache, maker, n).ok());
    ASSERT_FALSE(get(cache, maker, 5000).ok());  // used again and again, so it stays
    ASSERT_TRUE(get(cache, maker, 0).ok());
    ASSERT_LE(cache.stats().plans + cache.stats().refusals, 10);
  }
  EXPECT_EQ(maker.made, 1002);
  EXPECT_EQ(cache.stats().evictions, 992);
  const int64_t bytes = cache.stats().bytes;
  cache.set_limits({2, int64_t{1} << 30});
  EXPECT_EQ(cache.stats().refusals + cache.stats().plans, 2);
  EXPECT_LT(cache.stats().bytes, bytes);
  ASSERT_FALSE(get(cache, maker, 7).ok());
  ASSERT_FALSE(get(cache, maker, 7).ok());
  EXPECT_EQ(maker.made, 1003);
  cache.set_limits({1, 0});  // the newest entry stays
  ASSERT_FALSE(get(cache, maker, 7).ok());
  EXPECT_EQ(maker.made, 1003);
  EXPECT_EQ(cache.stats().plans, 0);
  EXPECT_FALSE(cache.newest());
}

TEST(PlanCache, WhoWaitsIsRefusedToo) {
  PlanCache cache;
  std::atomic<int> made{0}, refused{0};
  const int64_t slow = 1;
  auto ask = [&] {
    const auto use = cache.find_or_make(key_of(slow), [&]() -> Result<std::unique_ptr<Plan>> {
      ++made;
      while (cache.stats().waits < 7) std::this_thread::yield();
      return unsupported("none");
    });
    refused += use.status().code() == Code::unsupported && use.status().message() == "none";
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back(ask);
  for (std::thread& t : threads) t.join();
  ask();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(refused, 9);
}

// The nearest entry that the log gets is a plan, not a refusal.
TEST(PlanCache, NearestIsAPlan) {
  PlanCache cache;
  Maker maker([](int64_t n) { return n == 5; });
  std::vector<int64_t> nearest;
  const PlanCache::Watch watch = [&](PlanCache::Event, std::span<const int64_t>, const Plan* near) {
    nearest.push_back(near ? near->symbols()[0] : -1);
  };
  for (int64_t n : {6, 5, 5, 7}) (void)cache.find_or_make(key_of(n), [&] { return maker(n); }, &watch);
  EXPECT_THAT(nearest, testing::ElementsAre(-1, 6, 6));
}

TEST(PlanCache, MadeOnceAndOthersAreNotHeldUp) {
  PlanCache cache;
  Maker maker;
  std::atomic<bool> started{false}, go{false};
  const int64_t slow = 1;
  auto ask = [&] {
    auto use = cache.find_or_make(key_of(slow), [&] {
      started = true;
      while (!go) std::this_thread::yield();
      return maker(slow);
    });
    EXPECT_TRUE(use.ok());
    EXPECT_EQ((*use)->symbols()[0], slow);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back(ask);
  while (!started || cache.stats().waits < 7) std::this_thread::yield();
  EXPECT_TRUE(get(cache, maker, 2).ok());  // hangs if a plan in the making holds the lock
  go = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(maker.made, 2);
  EXPECT_EQ(cache.stats().waits, 7);
  EXPECT_EQ(cache.stats().misses, 2);
}

// For ThreadSanitizer and AddressSanitizer: many threads with few plans and some refusals.
TEST(PlanCache, ManyThreadsFewPlans) {
  PlanCache cache({3, int64_t{1} << 30});
  Maker maker([](int64_t n) { return n % 4 == 3; });
  std::atomic<int> wrong{0};
  auto work = [&](unsigned seed) {
    std::mt19937 rng(seed);
    for (int i = 0; i < 3000; ++i) {
      const int64_t n = rng() % 8;
      auto use = get(cache, maker, n);
      if (use.ok() ? maker.refused(n) || (*use)->symbols()[0] != n
                   : use.status().message() != "no plan for " + std::to_string(n))
        ++wrong;
      if (i % 64 == 0) cache.set_limits({1 + static_cast<int64_t>(rng() % 4), int64_t{1} << 30});
      if (i % 32 == 0 && cache.stats().plans > 4) ++wrong;
      if (auto newest = cache.newest(); newest && newest->symbols().size() != 1) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  const PlanStats s = cache.stats();
  EXPECT_EQ(s.misses, maker.made);
  EXPECT_EQ(s.misses - s.evictions, s.plans + s.refusals);
}

// ---- programs ----

constexpr char kTenNodes[] = R"(graph @ten(%x: f32[N,M], %b: f32[M]) {
  %a = add(%x, %b)
  %c = mul(%a, %a)
  %d = tanh(%c)
  %e = softmax(%d){axis=-1}
  %f = add(%e, %x)
  %g = sum(%f){axes=[0]}
  %h = exp(%g)
  %i = neg(%h)
  %j = mul(%i, %b)
  %k = add(%f, %j)
  return %k
})";

std::shared_ptr<Program> ten_nodes(const ProgramOptions& options = {}) {
  auto graph = parse_graph(kTenNodes);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  auto program = Program::make(*graph, options, {});
  EXPECT_TRUE(program.ok()) << program.status().message();
  return *program;
}

struct TenNodes {
  std::vector<float> x, b, y;
  explicit TenNodes(size_t most) : x(most, 0.5f), b(most, 0.25f), y(most) {}
  Status run(Program& program, int64_t n, int64_t m) {
    const int64_t two[] = {n, m}, one[] = {m};
    const Tensor in[] = {{x.data(), DType::f32, two, {}}, {b.data(), DType::f32, one, {}}};
    const Tensor out[] = {{y.data(), DType::f32, two, {}}};
    return program.run(in, out);
  }
  // Whether the outputs are right. All elements of a result are equal.
  bool right(int64_t n, int64_t m) const {
    const float f = 1.0f / static_cast<float>(m) + 0.5f;
    const float want = f - std::exp(static_cast<float>(n) * f) * 0.25f;
    for (int64_t i = 0; i < n * m; ++i)
      if (std::abs(y[i] - want) > 1e-4f * std::max(1.0f, std::abs(want))) return false;
    return true;
  }
};

struct Memory {
  int64_t resident = 0, mappings = 0;
};
Memory memory_now() {
  Memory m;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> m.resident;
  m.resident *= 4096;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++m.mappings;
  return m;
}

TEST(Program, TenThousandShapes) {
  ProgramOptions options;
  options.limits.plans = 200;
  auto program = ten_nodes(options);
  TenNodes host(128 * 128);
  [[maybe_unused]] Memory before;
  const int shapes = 10000;
  for (int i = 0; i < shapes; ++i) {
    // Each pair of sizes occurs once, small and large ones alternate, so that a leak would show.
    const int64_t n = 1 + i * 37 % 100, m = 1 + i / 100;
    ASSERT_TRUE(host.run(*program, n, m).ok());
    if (n < 30) {
      ASSERT_TRUE(host.right(n, m)) << n << " " << m;
    }
    ASSERT_LE(program->stats().plans.plans, 200);
    if (i == 200) before = memory_now();
  }
  [[maybe_unused]] const Memory after = memory_now();
  const PlanStats s = program->stats().plans;
  EXPECT_EQ(s.misses, shapes);
  EXPECT_EQ(s.evictions, shapes - 200);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(after.resident - before.resident, int64_t{32} << 20);
  EXPECT_EQ(after.mappings, before.mappings);
#endif
}

// Runs, evictions, new programs and explain() at the same time.
TEST(Program, EightThreads) {
  ProgramOptions options;
  options.limits.plans = 2;
  auto program = ten_nodes(options);
  std::atomic<int> wrong{0};
  auto work = [&](int self) {
    TenNodes host(16 * 16);
    std::shared_ptr<Program> own;
    for (int i = 0; i < 150; ++i) {
      const int64_t n = 1 + (i + self) % 5, m = 1 + (i * 7 + self) % 3;
      if (!host.run(*program, n, m).ok() || !host.right(n, m)) ++wrong;
      if (self < 2 && i % 30 == 0) own = ten_nodes(options);
      if (own && (!host.run(*own, n, m).ok() || !host.right(n, m))) ++wrong;
      if (self == 3) program->set_limits({1 + i % 4, int64_t{1} << 20});
      if (self == 4 && program->explain(i % 2).empty()) ++wrong;
      if (self == 5 && program->stats().plans.plans > 4) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// A run uses the old or the new weights, never a mixture, and never the old ones after update_params has returned.
TEST(Program, ParamsChangeWhileOthersRun) {
  auto graph = parse_graph(
      "graph @f(%x: f32[N,8], %w: f32[8] param) {\n %e = mul(%w, %w)\n %y = add(%x, %e)\n return %y\n}");
  ASSERT_TRUE(graph.ok());
  std::vector<float> w(8, 1.0f), x(16, 0.0f);
  const int64_t two[] = {2, 8}, one[] = {8};
  Tensor params[] = {{}, {w.data(), DType::f32, one, {}}};
  ProgramOptions options;
  options.freeze = true;
  auto program = Program::make(*graph, options, params);
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, least{1};
  auto work = [&] {
    std::vector<float> y(16);
    while (!stop) {
      const int from = least;
      const Tensor in[] = {{x.data(), DType::f32, two, {}}, {}};
      const Tensor out[] = {{y.data(), DType::f32, two, {}}};
      if (!(*program)->run(in, out).ok()) ++wrong;
      for (float v : y)
        if (v != y[0] || v < static_cast<float>(from * from)) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work);
  for (int i = 2; i < 20; ++i) {
    std::vector<float> next(8, static_cast<float>(i));
    params[1].data = next.data();
    EXPECT_TRUE((*program)->update_params(params).ok());
    w.swap(next);  // the old bytes are freed, so ASan finds reads of them
    least = i;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Program, LogSaysWhy) {
  static std::mutex mutex;
  static std::vector<std::string> lines;
  lines.clear();
  set_logger(
      [](void*, const char* topic, const char* message) {
        std::lock_guard lock(mutex);
        lines.push_back(std::string(topic) + ": " + message);
      },
      nullptr);
  ProgramOptions options;
  options.limits.plans = 1;
  auto program = ten_nodes(options);
  TenNodes host(64);
  ASSERT_TRUE(host.run(*program, 4, 3).ok());
  ASSERT_TRUE(host.run(*program, 4, 3).ok());
  ASSERT_TRUE(host.run(*program, 5, 3).ok());
  set_logger(nullptr, nullptr);
  std::vector<std::string> seen;
  for (const std::string& l : lines)
    if (l.starts_with("program: ") || l.starts_with("plan: ")) seen.push_back(l);
  ASSERT_EQ(seen.size(), 6u) << testing::PrintToString(seen);
  auto columns = [](const std::string& line) {
    int count = 1;
    bool quoted = false;
    for (char c : line) quoted = quoted != (c == '"'), count += c == ',' && !quoted;
    return count;
  };
  for (const std::string& l : seen) EXPECT_EQ(columns(l), l.starts_with("program") ? 7 : 5) << l;
  EXPECT_EQ(seen[0], "program: program,graph,nodes,kernels,compiled,ms,symbols");
  EXPECT_NE(seen[1].find(",@ten,"), std::string::npos) << seen[1];
  EXPECT_EQ(seen[2], "plan: event,program,graph,sizes,why");
  EXPECT_TRUE(seen[3].starts_with("plan: miss,") &&
              seen[3].ends_with(",@ten,N=4 M=3,the first plan of the program"))
      << seen[3];
  EXPECT_TRUE(seen[4].ends_with(",@ten,N=5 M=3,\"N, axis 0 of %x, is 5: the nearest plan has 4\""))
      << seen[4];
  EXPECT_TRUE(seen[5].starts_with("plan: evict,") &&
              seen[5].ends_with(",@ten,N=4 M=3,the limit of plans is reached"))
      << seen[5];
}

}  // namespace
}  // namespace tenon
