// Profiles of runs (src/runtime/profile.h) and the counts of operations and bytes in them (src/runtime/cost.h).
#include "src/runtime/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "src/ir/text.h"
#include "src/runtime/cost.h"
#include "src/runtime/program.h"

namespace tenon {
namespace {

using Json = nlohmann::json;

template <class T>
T must(Result<T> result) {
  TENON_CHECK(result.ok(), result.status().message());
  return std::move(*result);
}

constexpr const char* kTwoSteps = R"(graph @two(%x: f32[N,4], %w: f32[4,4]) {
  %h = matmul(%x, %w)
  %y = exp(%h)
  %z = sum(%y){axes=[0]}
  return %z
})";

std::shared_ptr<Program> made(const char* text) {
  return must(Program::make(must(parse_graph(text)), {}, {}));
}

Status run_once(Program& program, int64_t n) {
  std::vector<float> x(static_cast<size_t>(n * 4), 0.5f), w(16, 0.25f), z(4);
  const std::vector<int64_t> x_shape{n, 4}, w_shape{4, 4}, z_shape{4};
  const std::vector<Tensor> in{{x.data(), DType::f32, x_shape, {}}, {w.data(), DType::f32, w_shape, {}}},
      out{{z.data(), DType::f32, z_shape, {}}};
  return program.run(in, out);
}

Json stopped() { return Json::parse(must(stop_profile())); }

TEST(Profile, NothingIsRecordedBeforeAndAfter) {
  const auto program = made(kTwoSteps);
  ASSERT_TRUE(run_once(*program, 3).ok());
  EXPECT_FALSE(stop_profile().ok());
  ASSERT_TRUE(start_profile().ok());
  EXPECT_EQ(start_profile().message(), "a profile is being recorded already");
  EXPECT_TRUE(stopped()["programs"].empty());
  ASSERT_TRUE(run_once(*program, 3).ok());
  ASSERT_TRUE(start_profile().ok());
  EXPECT_TRUE(stopped()["traceEvents"].empty());
}

TEST(Observer, IsToldOfEveryStep) {
  std::vector<std::string> told;
  const auto program = made(kTwoSteps);
  ASSERT_TRUE(run_once(*program, 3).ok());
  observe_steps(
      [](void* to, const char* name) { static_cast<std::vector<std::string>*>(to)->push_back(name); },
      [](void* to) { static_cast<std::vector<std::string>*>(to)->push_back("end"); }, &told);
  ASSERT_TRUE(run_once(*program, 3).ok());
  EXPECT_FALSE(stop_profile().ok());  // observing records nothing
  ASSERT_TRUE(start_profile().ok());
  ASSERT_TRUE(run_once(*program, 3).ok());
  EXPECT_EQ(stopped()["programs"].size(), 1u);
  EXPECT_EQ(told, (std::vector<std::string>{"tenon::matmul", "end", "tenon::exp+sum", "end", "tenon::matmul",
                                            "end", "tenon::exp+sum", "end"}));
  observe_steps(nullptr, nullptr, nullptr);
  EXPECT_FALSE(profiling());
  ASSERT_TRUE(run_once(*program, 3).ok());
  EXPECT_EQ(told.size(), 8u);
}

TEST(Profile, EverySizeHasItsSteps) {
  ASSERT_TRUE(start_profile().ok());
  const auto program = made(kTwoSteps);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(run_once(*program, 3).ok());
  ASSERT_TRUE(run_once(*program, 70).ok());
  const Json profile = stopped();
  ASSERT_EQ(profile["programs"].size(), 2u);
  const Json& first = profile["programs"][0];
  EXPECT_EQ(first["graph"], "two");
  EXPECT_EQ(first["sizes"], "N=3");
  EXPECT_EQ(first["runs"], 5);
  EXPECT_EQ(profile["programs"][1]["sizes"], "N=70");
  double in_steps = 0, operations = 0;
  for (const Json& step : first["steps"]) {
    in_steps += step["seconds"].get<double>();
    operations += step["operations"].get<double>();
    EXPECT_LE(step["fastest"].get<double>() * 5, step["seconds"].get<double>() * 1.0001);
    EXPECT_FALSE(step["backend"].get<std::string>().empty());
    EXPECT_FALSE(step["runs"].get<std::string>().empty());
  }
  EXPECT_GT(in_steps, 0);
  EXPECT_LE(in_steps, first["seconds"].get<double>());
  EXPECT_EQ(operations, 2 * 3 * 4 * 4 + 3 * 4 + 3 * 4);
}

TEST(Profile, EventsAreATrace) {
  ASSERT_TRUE(start_profile().ok());
  const auto program = made(kTwoSteps);
  ASSERT_TRUE(run_once(*program, 3).ok());
  const Json profile = stopped();
  std::map<std::string, int> categories;
  double run_begin = 0, run_end = 0;
  for (const Json& e : profile["traceEvents"]) {
    ++categories[e["cat"]];
    EXPECT_EQ(e["ph"], "X");
    EXPECT_GE(e["dur"].get<double>(), 0);
    if (e["cat"] == "run") run_begin = e["ts"], run_end = run_begin + e["dur"].get<double>();
  }
  for (const Json& e : profile["traceEvents"])
    if (e["cat"] == "step" || e["cat"] == "plan") {
      EXPECT_GE(e["ts"].get<double>(), run_begin);
      EXPECT_LE(e["ts"].get<double>() + e["dur"].get<double>(), run_end + 0.01);
    }
  EXPECT_EQ(categories["compile"], 1);
  EXPECT_EQ(categories["plan"], 1);
  EXPECT_EQ(categories["run"], 1);
  EXPECT_EQ(categories["step"], static_cast<int>(profile["programs"][0]["steps"].size()));
}

TEST(Profile, EventsHaveALimit) {
  ASSERT_TRUE(start_profile().ok());
  const auto program = made("graph @f(%x: f32[4]) {\n  %y = neg(%x)\n  return %y\n}");
  std::vector<float> x(4), y(4);
  const std::vector<int64_t> shape{4};
  const std::vector<Tensor> in{{x.data(), DType::f32, shape, {}}}, out{{y.data(), DType::f32, shape, {}}};
  const auto runs = static_cast<int64_t>(kMostEvents / 2);
  for (int64_t i = 0; i < runs; ++i) ASSERT_TRUE(program->run(in, out).ok());
  const Json profile = stopped();
  EXPECT_EQ(profile["traceEvents"].size(), kMostEvents);
  EXPECT_EQ(profile["dropped_events"], 2);  // two per run, and the compilation and the plan
  EXPECT_EQ(profile["programs"][0]["runs"], runs);
}

TEST(Profile, ThreadsRunWhileProfilesBeginAndEnd) {
  const auto program = made(kTwoSteps);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      while (!done) EXPECT_TRUE(run_once(*program, 2 + t).ok());
    });
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(start_profile().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const Json profile = stopped();
    for (const Json& p : profile["programs"]) EXPECT_GT(p["runs"], 0);
  }
  done = true;
  for (std::thread& t : threads) t.join();
}

TEST(Profile, CopiesOfUpdatesAreAStep) {
  // The second output needs the former values of both inputs, so one update is copied at the end.
  const auto program = made(R"(graph @swap(%a: f32[64], %b: f32[64]) {
  %x = neg(%b)
  %y = neg(%a)
  return %x updates %a, %y updates %b
})");
  std::vector<float> a(64, 1), b(64, 2);
  const std::vector<int64_t> shape{64};
  const std::vector<Tensor> in{{a.data(), DType::f32, shape, {}}, {b.data(), DType::f32, shape, {}}};
  ASSERT_TRUE(start_profile().ok());
  ASSERT_TRUE(program->run(in, {}).ok());
  const Json profile = stopped();
  bool copied = false;
  for (const Json& step : profile["programs"][0]["steps"]) copied = copied || step["backend"] == "copy";
  EXPECT_TRUE(copied);
  EXPECT_EQ(a[0], -2);
  EXPECT_EQ(b[0], -1);
}

TEST(Cost, CountsProductsAndBytes) {
  const Graph g = must(parse_graph(
      R"(graph @c(%x: bf16[N,8], %w: bf16[16,8], %i: f32[2,3,10,10], %k: f32[6,3,3,3], %q: f32[1,2,5,4], %s: f32[1,2,7,4], %d: f32[2,6,8,8],
          %gates: f32[3,2,20], %h: f32[2,4], %u: f32[20,4], %bias: f32[20], %cell: f32[2,5], %p: f32[4,5], %y: f32[3,2,20], %before: f32[2,20],
          %v: f32[20,20]) {
  %l = linear(%x, %w)
  %c = convolution(%i, %k){strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1]}
  %b = convolution(%d, %k){strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1], transposed=true, output_padding=[0,0]}
  %g = convolution_weight_gradient(%i, %d){kernel=[3,3], strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1]}
  %a = attention(%q, %s, %s){scale=1.0}
  %r = sum(%i){axes=[1]}
  %t = transpose(%x){perm=[1,0]}
  %m = recurrent(%gates, %h, %u, %bias, %cell, %p){mode="lstm"}
  %n = recurrent_gradient(%y, %y, %before, %v){mode="tanh"}
  return %l, %c, %b, %g, %a, %r, %t, %m, %n
})"));
  const std::vector<int64_t> symbols{32};
  const Cost cost(g, symbols);
  const auto at = [&](const char* name) {
    for (ValueId v = 0; v < static_cast<ValueId>(g.nodes.size()); ++v)
      if (g.node(v).name == name) return v;
    return kNoValue;
  };
  EXPECT_EQ(cost.operations(at("l")), 2 * 32 * 16 * 8);
  EXPECT_EQ(cost.operations(at("c")), 2.0 * (2 * 6 * 8 * 8) * (3 * 3 * 3));
  EXPECT_EQ(cost.operations(at("b")), cost.operations(at("c")));
  EXPECT_EQ(cost.operations(at("g")), cost.operations(at("c")));
  EXPECT_EQ(cost.operations(at("a")), 2 * 2 * (2 * 5 * 7 * 4));
  EXPECT_EQ(cost.operations(at("r")), 2 * 3 * 10 * 10);
  EXPECT_EQ(cost.operations(at("m")), 2 * 3 * 2 * (4 * 20 + 4 * 5));
  EXPECT_EQ(cost.operations(at("n")), 2 * 3 * 2 * (20 * 20));
  EXPECT_EQ(cost.operations(at("t")), 0);
  EXPECT_EQ(cost.bytes(at("x")), 32 * 8 * 2);
}

}  // namespace
}  // namespace tenon
