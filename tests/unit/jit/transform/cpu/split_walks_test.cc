// Walks along few columns are kernels of their own: each has work for all threads, and the results are the evaluator's.
#include "jit/transform/cpu/split_walks.h"

#include <gtest/gtest.h>

#include "tests/support/group_kernels.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

std::string batch_norm(const std::string& type, const std::string& vector) {
  return "graph @f(%x: " + type + ", %g: " + type + ", %w: " + vector + ") {\n" + R"(
  %s = sum(%x){axes=[0]}
  %k = full{value=0.001, shape=[], dtype=f32}
  %m = mul(%s, %k)
  %d = sub(%x, %m)
  %q = mul(%d, %d)
  %v = sum(%q){axes=[0]}
  %vk = mul(%v, %k)
  %r = rsqrt(%vk)
  %n = mul(%d, %r)
  %nw = mul(%n, %w)
  %y = add(%nw, %g)
  return %m, %y, %r
})";
}

// Two reductions, each in parts, and a loop over rows and columns.
TEST(SplitWalks, FewColumnsHaveAKernelForEachWalk) {
  const auto kernels = kernels_of(parsed(batch_norm("f32[N,64]", "f32[64]")));
  ASSERT_EQ(kernels.size(), 5u);
  const jit::Stmt& last = kernels.back().kernel.body[0];
  EXPECT_EQ(last.axes.size(), 2u) << print(kernels.back().kernel);
  EXPECT_TRUE(std::ranges::none_of(last.body, [](const jit::Stmt& s) { return !s.axes.empty(); }));
}

TEST(SplitWalks, OtherColumnsKeepOneKernel) {
  EXPECT_EQ(kernels_of(parsed(batch_norm("f32[N,4096]", "f32[4096]"))).size(), 1u);
  EXPECT_EQ(kernels_of(parsed(batch_norm("f32[N,M]", "f32[M]"))).size(), 1u);
  EXPECT_EQ(kernels_of(parsed(batch_norm("f32[100,64]", "f32[64]"))).size(), 1u);
}

// The columns of zeros are written first. Then the walks of the other columns must find all of their operand, so the result lies elsewhere.
TEST(SplitWalks, NoWalkReadsWhatAnotherKernelHasOverwritten) {
  const Graph graph = parsed(R"(graph @f(%a: f32[13,183,1], %w: f32[13,1,32]) {
  %v = mul(%a, %w)
  %m = abs(%v)
  %s = sum(%m){axes=[0,1], keepdims=true}
  %d = div(%v, %s)
  %l = slice(%d){axis=2, start=0, end=31, step=1}
  %y = pad(%l){low=[0,0,1], high=[0,0,0], value=0.0}
  return %y
})");
  std::vector<HostTensor> inputs = random_inputs(graph);
  const auto expected = evaluate(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const auto program = Program::make(graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<HostTensor> outputs = blank_like(*expected);
  ASSERT_TRUE(run(**program, inputs, outputs).ok());
  for (int64_t i = 0; i < outputs[0].count(); ++i)
    ASSERT_NEAR(outputs[0].number(i), (*expected)[0].number(i), 1e-5) << i;
}

TEST(SplitWalks, ResultsAreTheEvaluators) {
  for (int64_t columns : {1, 3, 64, 300})
    for (int64_t rows : {2, 7, 1025, 5000}) {
      const std::string c = std::to_string(columns);
      const Graph graph = parsed(batch_norm("f32[N," + c + "]", "f32[" + c + "]"));
      std::vector<HostTensor> inputs{random_tensor(DType::f32, {rows, columns}, 1),
                                     random_tensor(DType::f32, {rows, columns}, 2),
                                     random_tensor(DType::f32, {columns}, 3)};
      auto expected = evaluate(graph, inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      auto program = Program::make(graph, {}, {});
      ASSERT_TRUE(program.ok()) << program.status().message();
      std::vector<HostTensor> outputs = blank_like(*expected);
      ASSERT_TRUE(run(**program, inputs, outputs).ok());
      for (size_t o = 0; o < outputs.size(); ++o)
        for (int64_t i = 0; i < outputs[o].count(); ++i) {
          const double want = (*expected)[o].number(i);
          if (rows > 1) {
            ASSERT_NEAR(outputs[o].number(i), want, 1e-4 * (1 + std::abs(want))) << o << " " << i;
          }
        }
    }
}

}  // namespace
}  // namespace tenon
