// Compares the shape guards of a plan with making the whole graph again at the new sizes, on random graphs. Both give the same
// answer, whichever nodes the guards leave out as closed or alike.
#include "src/runtime/compile/shape_guards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/text.h"
#include "src/ops/eval/eval.h"
#include "tests/support/graph_gen.h"
#include "tests/support/sanitized.h"

namespace tenon {
namespace {

std::string print_values(std::span<const int64_t> values) {
  std::string text;
  for (int64_t v : values) text += (text.empty() ? "" : ",") + std::to_string(v);
  return text;
}

TEST(ShapeGuards, SayWhatTheWholeGraphSays) {
  const char* more = std::getenv("TENON_CONDITIONS_COUNT");
  const uint64_t count = more ? std::strtoull(more, nullptr, 10) : rounds(10000);
  int64_t asked = 0, refused = 0, open = 0, nodes = 0, failures = 0;
  for (uint64_t seed = 1; seed <= count && failures < 10; ++seed) {
    const RandomGraph r = GraphGen(seed).make();
    const ShapeGuards conditions(r.graph);
    open += static_cast<int64_t>(conditions.nodes());
    nodes += static_cast<int64_t>(r.graph.nodes.size());
    EXPECT_TRUE(conditions.check(r.symbols).ok()) << "seed " << seed << " at its own sizes";
    std::mt19937_64 rng(seed);
    for (int round = 0; round < (conditions.nodes() ? 40 : 4); ++round) {
      std::vector<int64_t> values = r.symbols;
      for (int64_t& v : values)
        if (rng() % 2) v = static_cast<int64_t>(rng() % (round % 2 ? 70 : 6));
      const Status whole = at_sizes(r.graph, values).status(), short_way = conditions.check(values);
      ++asked;
      refused += !whole.ok();
      if (whole.code() == short_way.code()) continue;
      ++failures;
      ADD_FAILURE() << "seed " << seed << " at " << print_values(values) << "\n"
                    << print(r.graph) << "the graph: " << whole.message()
                    << "\nthe conditions: " << short_way.message();
    }
  }
  printf("%lld of %lld sizes refused; %lld of %lld nodes asked\n", static_cast<long long>(refused),
         static_cast<long long>(asked), static_cast<long long>(open), static_cast<long long>(nodes));
  // The test shows nothing if the graphs take any size, or if the guards leave out no node.
  EXPECT_GT(refused, asked / 50);
  EXPECT_LT(open, nodes / 2);
}

// Each kind of condition, at the last valid size and the first invalid one.
TEST(ShapeGuards, AreExactAtTheirBounds) {
  struct {
    const char* body;
    std::vector<int64_t> good, bad;
    const char* says;
  } cases[] = {
      {"slice(%x){axis=0, start=2, end=N}", {2, 1}, {1, 1}, "slice"},
      {"slice(%x){axis=0, start=0, end=M}", {5, 5}, {5, 6}, "slice"},
      {"slice(%x){axis=0, start=0, end=N-1}", {1, 1}, {0, 1}, "slice"},
      {"reshape(%x){shape=[M,3]}", {6, 2}, {6, 3}, "reshape"},
      {"reshape(%x){shape=[-1,4]}", {8, 1}, {9, 1}, "reshape"},
      {"argmax(%x){axis=0, keepdims=false}", {1, 1}, {0, 1}, "argmax"},
      {"pad(%x){low=[0], high=[-M]}", {4, 4}, {4, 5}, "pad"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.body);
    const auto graph = parse_graph("graph @g(%x: f32[N], %m: f32[M]) {\n  %y = " + std::string(c.body) +
                                   "\n  return %y, %m\n}\n");
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const ShapeGuards conditions(*graph);
    EXPECT_EQ(conditions.nodes(), 1u);
    EXPECT_TRUE(conditions.check(c.good).ok()) << conditions.check(c.good).message();
    const Status broken = conditions.check(c.bad);
    EXPECT_EQ(broken.code(), Code::invalid);
    EXPECT_THAT(broken.message(), testing::HasSubstr(c.says));
  }
}

// Types that the text claims, and that algebra cannot prove, are checked at the sizes.
TEST(ShapeGuards, ClaimsAreAsked) {
  struct {
    const char *header, *body;
    std::vector<int64_t> good, bad;
    const char* says;
  } cases[] = {
      {"%x: f32[N], %y: f32[M]",
       "add(%x, %y) : f32[N]",
       {3, 3},
       {3, 4},
       "assumes (N == M), but these are 3 and 4"},
      {"%x: f32[N], %y: f32[M//2]", "add(%x, %y) : f32[N]", {3, 7}, {3, 9}, "N is 3, M is 9"},
      {"%x: f32[N]", "slice(%x){axis=0, start=0, end=N//2} : f32[M]", {9, 4}, {9, 5}, "(N//2 == M)"},
      {"%x: f32[N]", "reshape(%x){shape=[-1,4]} : f32[M,4]", {8, 2}, {12, 2}, "(N//4 == M)"},
      {"%x: f32[2,N], %y: f32[M,3]", "matmul(%x, %y) : f32[2,3]", {5, 5}, {5, 6}, "(N == M)"},
      {"%x: f32[N,2], %y: f32[M,3]", "concat(%x, %y){axis=1} : f32[N,5]", {5, 5}, {5, 6}, "(N == M)"},
      {"%x: f32[1,N,2]", "group_norm(%x){groups=3, eps=1e-5} : f32[1,N,2]", {6, 0}, {7, 0}, "(N%3 == 0)"},
      {"%x: f32[N]", "expand(%x){shape=[2,M]} : f32[2,M]", {4, 4}, {4, 5}, "(N == M)"},
      {"%x: f32[N+1], %y: f32[N]", "add(%x, %y) : f32[N+1]", {1, 0}, {2, 0}, "(N == 1)"},
      {"%x: f32[N//8-1], %y: f32[7]", "add(%x, %y) : f32[7]", {65, 0}, {72, 0}, "are 8 and 7: N is 72"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.body);
    const auto graph = parse_graph("graph @g(%n: i64[] = N, %m: i64[] = M, " + std::string(c.header) +
                                   ") {\n  %z = " + c.body + "\n  return %z\n}\n");
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const ShapeGuards conditions(*graph);
    auto values = [&](const std::vector<int64_t>&
                          n_and_m) {  // by symbol number, which depends on the facts in front
      std::vector<int64_t> values(2);
      for (size_t i = 0; i < 2; ++i)
        values[static_cast<size_t>(graph->dims->symbol_number(*graph->dims->find_symbol(i ? "M" : "N")))] =
            n_and_m[i];
      return values;
    };
    EXPECT_TRUE(conditions.check(values(c.good)).ok()) << conditions.check(values(c.good)).message();
    const Status broken = conditions.check(values(c.bad));
    EXPECT_EQ(broken.code(), Code::unsupported);
    EXPECT_THAT(broken.message(), testing::HasSubstr(c.says));
    EXPECT_EQ(at_sizes(*graph, values(c.bad)).status().code(), Code::unsupported);
  }
}

// An assumption about a symbol that the graph does not use is not checked.
TEST(ShapeGuards, WhatNoInputTellsIsNotAsked) {
  const auto graph = parse_graph(
      "graph @g(%x: f32[N], %y: f32[M]) {\n  assume (M == N)\n  %z = add(%x, %y) : f32[M]\n  return %z\n}\n");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->type(graph->inputs[0].value), graph->type(graph->inputs[1].value));
  EXPECT_TRUE(ShapeGuards(*graph).check(std::vector<int64_t>{3, 0}).ok());
}

TEST(ShapeGuards, AlikeNodesAreAskedOnce) {
  const auto graph = parse_graph(R"(graph @g(%x: f32[N], %y: f32[N], %z: i64[N], %m: f32[M]) {
  %a = slice(%x){axis=0, start=2, end=N}
  %b = slice(%y){axis=0, start=2, end=N}
  %c = slice(%z){axis=0, start=2, end=N}
  %d = slice(%x){axis=0, start=3, end=N}
  %e = slice(%x){axis=0, start=0, end=3}
  %f = slice(%m){axis=0, start=0, end=3}
  return %a, %b, %c, %d, %e, %f
})");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const ShapeGuards conditions(*graph);
  EXPECT_EQ(conditions.nodes(),
            5u);  // %a and %b count as one; nodes with another dtype, start or size are different
  for (int64_t n : {2, 3})
    for (int64_t m : {2, 3})
      EXPECT_EQ(conditions.check(std::vector<int64_t>{n, m}).ok(), n == 3 && m == 3) << n << " " << m;
}

}  // namespace
}  // namespace tenon
