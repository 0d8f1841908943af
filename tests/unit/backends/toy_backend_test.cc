// The back end of docs/howto/add-backend.md: compared with the evaluator, over sizes and memory layouts; the nodes that it refuses run
// on the CPU back end.
#include "tests/support/toy_backend.h"

#include <gmock/gmock.h>

#include "backends/cpu/cpu.h"
#include "tests/support/own_backends.h"
#include "tests/support/run_help.h"

namespace tenon {

std::span<Backend* const> all_backends() {
  static Backend* const backends[] = {&toy_backend(), &cpu_backend()};
  return backends;
}

namespace {

using testing::HasSubstr;

Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  return *graph;
}

// Runs the graph on inputs of these shapes and compares with the evaluator. Returns what the program explains.
std::string check(const std::string& text, const std::vector<std::vector<int64_t>>& shapes, int threads = 0) {
  const Graph graph = parsed(text);
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i)
    inputs.push_back(random_tensor(graph.type(graph.inputs[i].value).dtype, shapes[i], 7 + i));
  const auto expected = evaluate(graph, inputs);
  TENON_CHECK(expected.ok(), expected.status().message());
  ProgramOptions options;
  options.threads = threads;
  const auto program = Program::make(graph, options, {});
  TENON_CHECK(program.ok(), program.status().message());
  std::vector<HostTensor> outputs = blank_like(*expected);
  const Status status = run(**program, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  for (size_t o = 0; o < outputs.size(); ++o)
    for (int64_t i = 0; i < outputs[o].count(); ++i)
      EXPECT_NEAR(outputs[o].number(i), (*expected)[o].number(i), 1e-5) << text << " at " << i;
  return (*program)->explain(false);
}

const char* const kProduct = R"(graph @g(%a: f32[M,K], %b: f32[K,N]) {
  %p = matmul(%a, %b)
  %s = square(%p)
  %y = neg(%s)
  return %y
})";

TEST(ToyBackend, TakesAProductAndMapsBehindIt) {
  const std::string said = check(kProduct, {{3, 4}, {4, 5}});
  EXPECT_THAT(said, HasSubstr("step 0 (toy): matmul square neg\n  product of matrices, square, neg\n"));
  EXPECT_THAT(said, testing::Not(HasSubstr("step 1")));
}

TEST(ToyBackend, TakesSizesOf0And1AndAnyNumberOfThreads) {
  for (int64_t m : {0, 1, 2, 7})
    for (int64_t k : {0, 1, 3})
      for (int64_t n : {0, 1, 5})
        for (int threads : {1, 4}) check(kProduct, {{m, k}, {k, n}}, threads);
}

TEST(ToyBackend, ReadsViewsInPlace) {
  const std::string said = check(R"(graph @g(%a: f32[K,M], %b: f32[6], %c: f32[K,9]) {
  %t = transpose(%a){perm=[1,0]}
  %s = slice(%c){axis=1, start=1, end=9, step=2}
  %p = matmul(%t, %s)
  %e = expand(%b){shape=[4,6]}
  %q = matmul(%p, %e)
  return %p, %q
})",
                                 {{5, 3}, {6}, {5, 9}});
  EXPECT_THAT(said, HasSubstr("step 1 (toy): matmul\n"));
  EXPECT_THAT(said, testing::Not(HasSubstr("step 2")));
}

TEST(ToyBackend, LeavesTheRestToTheCpu) {
  const std::string said = check(R"(graph @g(%a: f32[M,K], %b: f32[K,N], %c: f64[2,M,M]) {
  %p = matmul(%a, %b)
  %r = relu(%p)
  %y = neg(%r)
  %q = matmul(%c, %c)
  return %y, %q
})",
                                 {{3, 4}, {4, 5}, {2, 3, 3}});
  EXPECT_THAT(said, HasSubstr("(toy): matmul\n"));
  EXPECT_THAT(said, HasSubstr("= toy \"computes no maximum with a product\""));
  EXPECT_THAT(said, HasSubstr("(cpu): maximum neg\n"));
  EXPECT_THAT(said, HasSubstr("(cpu): mul sum\n"));  // the body of the second product
}

TEST(ToyBackend, SaysWhyItRefuses) {
  const auto why = [](const std::string& text) {
    const Graph graph = parsed(text);
    const Bid bid = toy_backend().bid(graph, graph.outputs[0].value);
    EXPECT_FALSE(bid.yes) << text;
    return bid.why;
  };
  EXPECT_EQ(why("graph @g(%a: f32[M]) {\n %y = exp(%a)\n return %y\n}"), "takes products of matrices only");
  EXPECT_EQ(why("graph @g(%a: f64[M,M]) {\n %y = matmul(%a, %a)\n return %y\n}"), "computes in f32 only");
  EXPECT_EQ(why("graph @g(%a: f32[2,M,M]) {\n %y = matmul(%a, %a)\n return %y\n}"),
            "takes operands of two axes only");
}

}  // namespace
}  // namespace tenon
