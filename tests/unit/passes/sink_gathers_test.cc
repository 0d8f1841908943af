// Programs whose gathers follow products have the evaluator's results, and its errors for indices outside.
#include <gtest/gtest.h>

#include "tests/support/graph_check.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

// Messages of a graph network: products of both ends of an edge and of its own features; one row for two to four indices.
std::string messages(const std::string& type) {
  return "graph @messages(%x: " + type + "[9,40], %e: " + type + "[30,7], %w: " + type +
         "[87,21], %b: " + type + R"([21], %i: i64[30], %j: i32[30], %v: )" + type + R"([40,5]) {
  %xi = gather(%x, %i){axis=0}
  %xj = gather(%x, %j){axis=0, wrap=false}
  %cat = concat(%xi, %e, %xj){axis=1}
  %p = matmul(%cat, %w)
  %y = add(%p, %b)
  %z = relu(%y)
  %q = matmul(%xi, %v)
  return %z, %cat, %q
}
)";
}

std::vector<HostTensor> edges(const Graph& graph, int64_t outside = 0) {
  std::vector<HostTensor> inputs = random_inputs(graph);
  for (int64_t k = 0; k < 30; ++k) {
    inputs[4].set(k, {0, k % 9 - k % 2 * 9});  // half of them count from the end
    inputs[5].set(k, {0, k * k % 9});
  }
  if (outside) inputs[5].set(29, {0, outside});
  return inputs;
}

TEST(SinkGathers, ResultsAreTheEvaluators) {
  for (const std::string type : {"f32", "f64", "bf16", "f16"}) {
    const auto graph = parse_graph(messages(type));
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    std::vector<HostTensor> inputs = edges(*graph);
    for (const bool frozen : {false, true}) {
      const CheckResult result =
          check_program(*graph, inputs, {false, false, frozen, frozen, false, false, frozen});
      EXPECT_EQ(result.kind, CheckResult::right) << result.message << type;
    }
  }
}

TEST(SinkGathers, IndicesOutsideAreErrors) {
  const auto program = program_of(messages("f32"));
  const auto graph = parse_graph(messages("f32"));
  for (const int64_t outside : {9, -1}) {
    std::vector<HostTensor> inputs = edges(*graph, outside);
    std::vector<HostTensor> outputs;
    for (const int64_t columns : {21, 87, 5})
      outputs.emplace_back(DType::f32, std::vector<int64_t>{30, columns});
    const Status status = run(*program, inputs, outputs);
    EXPECT_NE(status.message().find("index"), std::string_view::npos) << status.message();
  }
}

}  // namespace
}  // namespace tenon
