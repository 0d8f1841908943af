// Steps in a row that run in common parallel regions: how many regions a run has, and that results are the bits of one thread.
#include "src/runtime/plan/join_steps.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/runtime/profile.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

// Runs the ranges on the calling thread and counts the regions.
class Counting final : public Parallel {
 public:
  int regions = 0;
  int threads() const override { return 2; }
  void run(int64_t n, int most, RangeFn fn, void* arg) override {
    ++regions;
    for (int t = 0; t < most; ++t)
      if (n * t / most < n * (t + 1) / most) fn(arg, t, n * t / most, n * (t + 1) / most);
  }
};

struct Case {
  Graph graph;
  std::vector<HostTensor> inputs;
};

Case case_of(const std::string& text) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message() + "\n" + text);
  Case made{std::move(*graph), {}};
  for (const InputBinding& in : made.graph.inputs) {
    std::vector<int64_t> shape;
    for (Dim d : made.graph.type(in.value).shape) shape.push_back(d.value());
    made.inputs.push_back(
        random_tensor(made.graph.type(in.value).dtype, shape, static_cast<uint32_t>(made.inputs.size())));
  }
  return made;
}

struct Ran {
  Status status;
  std::vector<HostTensor> inputs, outputs;  // after the run
  int regions = 0;
  int64_t steps = 0;
};

Ran ran(const Case& c, int threads) {
  Counting parallel;
  ProgramOptions options;
  options.parallel = &parallel;
  options.threads = threads;
  auto program = Program::make(c.graph, options, {});
  TENON_CHECK(program.ok(), program.status().message());
  Ran result{{}, c.inputs, {}};
  for (size_t o = 0; o < c.graph.plain_outputs(); ++o) {
    const TensorType& type = c.graph.type(c.graph.outputs[o].value);
    std::vector<int64_t> shape;
    for (Dim d : type.shape) shape.push_back(d.value());
    result.outputs.push_back(HostTensor(type.dtype, shape));
  }
  result.outputs = blank_like(result.outputs);
  result.status = run(**program, result.inputs, result.outputs);
  result.regions = parallel.regions;
  result.steps = (*program)->stats().steps;
  return result;
}

void expect_equal(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].bytes, b[i].bytes) << i;
}

// Rows of `count` tables, side by side or each in a result of its own.
std::string gathers(int count, bool apart = false) {
  std::string inputs, body, all;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    inputs += (i ? ", %t" : "%t") + n + ": f32[5,64], %i" + n + ": i64[64]";
    body += "  %g" + n + " = gather(%t" + n + ", %i" + n + "){axis=0}\n";
    all += (i ? ", %g" : "%g") + n;
  }
  body += apart ? "  return " + all : "  %y = concat(" + all + "){axis=1}\n  return %y";
  return "graph @gathers(" + inputs + ") {\n" + body + "\n}";
}

TEST(JoinSteps, IndependentStepsTakeOneRegion) {
  const Case c = case_of(gathers(30, /*apart=*/true));
  const Ran one = ran(c, 1), two = ran(c, 2);
  ASSERT_TRUE(one.status.ok()) << one.status.message();
  ASSERT_TRUE(two.status.ok()) << two.status.message();
  EXPECT_EQ(two.steps, 30);
  EXPECT_EQ(one.regions, 0);
  EXPECT_EQ(two.regions, 1);
  expect_equal(one.outputs, two.outputs);
}

// A concatenation has a kernel for each operand, so the number of operands does not keep their producers out of the group.
TEST(JoinSteps, AConcatenationOfManyTakesInItsProducers) {
  auto program = Program::make(case_of(gathers(30)).graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->stats().steps, 1);
}

// Each weight has a small value of its own that a step computes in front of the step that updates it.
std::string updates(int count) {
  std::string inputs, body, results;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    inputs += (i ? ", %w" : "%w") + n + ": f32[" + std::to_string(200 + i) + "], %s" + n + ": f32[4]";
    body += "  %t" + n + " = sum(%s" + n + "){axes=[0]}\n  %e" + n + " = exp(%t" + n + ")\n  %m" + n +
            " = mul(%w" + n + ", %e" + n + ")\n  %v" + n + " = tanh(%m" + n + ")\n";
    results += (i ? ", %v" : "%v") + n + " updates %w" + n;
  }
  return "graph @updates(" + inputs + ") {\n" + body + "  return " + results + "\n}";
}

TEST(JoinSteps, ChainsOfStepsTakeTwoRegions) {
  const Case c = case_of(updates(200));
  const Ran one = ran(c, 1), two = ran(c, 2);
  ASSERT_TRUE(one.status.ok()) << one.status.message();
  ASSERT_TRUE(two.status.ok()) << two.status.message();
  EXPECT_GE(two.regions, 1);
  EXPECT_LE(two.regions, 2);
  expect_equal(one.inputs, two.inputs);
}

TEST(JoinSteps, AFaultLeavesUpdatedInputsAsTheyAre) {
  Case c = case_of(R"(graph @f(%t: f32[5,4096], %i: i64[8], %w: f32[4096]) {
  %g = gather(%t, %i){axis=0}
  %v = tanh(%w)
  return %g, %v updates %w
})");
  c.inputs[1].set(3, {0, 99});
  const Ran two = ran(c, 2);
  EXPECT_EQ(two.status.code(), Code::invalid) << two.status.message();
  expect_equal(two.inputs, c.inputs);
}

TEST(JoinSteps, AProfileHasEachStep) {
  ASSERT_TRUE(start_profile().ok());
  const Case c = case_of(updates(20));
  const Ran two = ran(c, 2);
  ASSERT_TRUE(two.status.ok());
  auto text = stop_profile();
  ASSERT_TRUE(text.ok());
  const auto profile = nlohmann::json::parse(*text);
  EXPECT_GE(profile["programs"][0]["steps"].size(), 20u);
}

}  // namespace
}  // namespace tenon
