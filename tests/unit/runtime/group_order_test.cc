// The order of groups: fewer bytes alive at once, updates in place, faults first; and never more bytes than in the order of the
// numbers.
#include "src/runtime/compile/group_order.h"

#include "src/ir/group.h"
#include "src/passes/gradient.h"
#include "src/runtime/compile/updates.h"
#include "tests/support/graph_gen.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

// group_of: the group of each node behind the inputs.
Graph grouped(const std::string& text, const std::vector<int>& group_of) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  const size_t first = graph->inputs.size();
  for (size_t i = 0; i < group_of.size(); ++i) {
    graph->nodes[first + i].group = group_of[i];
    graph->groups.resize(std::max<size_t>(graph->groups.size(), static_cast<size_t>(group_of[i]) + 1));
  }
  for (size_t g = 0; g < graph->groups.size(); ++g) graph->groups[g].why = std::to_string(g);
  return std::move(*graph);
}

// The former numbers of the groups, in their new order.
std::string order_of(const Graph& graph) {
  std::string order;
  for (const Group& g : graph.groups) order += g.why;
  return order;
}

// Two steps of an optimizer.
constexpr const char* kTwoSteps = R"(graph @f(%x: f32[N,N], %a: f32[N,N], %b: f32[N,N]) {
  %ga = matmul(%x, %x)
  %gb = matmul(%x, %b)
  %ua = sub(%a, %ga)
  %ub = sub(%b, %gb)
  return %ua updates %a, %ub updates %b
})";

TEST(GroupOrder, AnUpdateRunsOnceItsOperandsAreThere) {
  Graph graph = grouped(kTwoSteps, {0, 1, 2, 3});
  EXPECT_TRUE(order_groups(graph, {}).empty());
  EXPECT_EQ(order_of(graph), "0213");
}

TEST(GroupOrder, ACopiedUpdateFreesNothing) {
  Graph graph = grouped(kTwoSteps, {0, 1, 2, 3});
  EXPECT_TRUE(order_groups(graph, {0, 1}).empty());
  EXPECT_EQ(order_of(graph), "0123");
}

TEST(GroupOrder, AFaultComesBeforeUpdates) {
  Graph graph = grouped(R"(graph @f(%x: f32[N,N], %a: f32[N,N], %i: i64[N]) {
    %g = matmul(%x, %x)
    %t = gather(%x, %i){axis=0}
    %u = sub(%a, %g)
    return %t, %u updates %a
  })",
                        {0, 2, 1});
  EXPECT_TRUE(order_groups(graph, {}).empty());
  EXPECT_EQ(order_of(graph), "021");
}

// The host gets %d back once the first product is done.
TEST(GroupOrder, AFaultComesFirstIfAnInputIsDonated) {
  Graph graph = grouped(R"(graph @f(%d: f32[N,N] donated, %i: i64[N], %n: i64[]) {
    %p = matmul(%d, %d)
    %q = matmul(%p, %p)
    %m = add(%n, %n)
    %c = index_in(%i, %m)
    %t = gather(%q, %c){axis=0}
    return %t
  })",
                        {0, 1, 2, 3, 4});
  EXPECT_TRUE(order_groups(graph, {}).empty());
  EXPECT_EQ(order_of(graph), "23014");
}

// Bytes that are alive at once, with all sizes 64.
int64_t peak_of(const Graph& graph) {
  const Uses uses(graph);
  const auto members = members_of_groups(graph);
  std::map<ValueId, std::pair<size_t, size_t>> life;
  for (size_t g = 0; g < members.size(); ++g) {
    for (ValueId v : outputs_of(graph, uses, members[g]))
      if (!uses.is_output(v)) life[v] = {g, g};
    for (ValueId v : inputs_of(graph, members[g]))
      if (life.contains(v)) life[v].second = g;
  }
  const std::vector<int64_t> sizes(static_cast<size_t>(graph.dims->symbol_count()), 64);
  int64_t peak = 0;
  for (size_t g = 0; g < members.size(); ++g) {
    int64_t alive = 0;
    for (const auto& [v, span] : life) {
      int64_t bytes = size_of(graph.type(v).dtype);
      for (Dim d : graph.type(v).shape) bytes *= *graph.dims->eval(d, sizes);
      if (span.first <= g && g <= span.second) alive += bytes;
    }
    peak = std::max(peak, alive);
  }
  return peak;
}

TEST(GroupOrder, RandomGraphsNeverNeedMoreBytes) {
  int fewer = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int nodes = 30;
    std::string text = "graph @f(%v0: f32[N,8]) {\n";
    std::vector<int> groups;
    for (int i = 1; i <= nodes; ++i) {
      const std::string n = "%v" + std::to_string(i),
                        a = "%v" + std::to_string(random() % static_cast<uint32_t>(i)),
                        b = "%v" + std::to_string(random() % static_cast<uint32_t>(i));
      text += n + " = add(" + a + ", " + b + ")\n";
      groups.push_back(i - 1);
    }
    Graph graph = grouped(text + "return %v" + std::to_string(nodes) + "\n}", groups);
    const int64_t before = peak_of(graph);
    Graph again = graph;
    EXPECT_TRUE(order_groups(graph, {}).empty());
    const int64_t after = peak_of(graph);
    EXPECT_LE(after, before);
    fewer += after < before;
    for (const Node& node : graph.nodes)
      for (ValueId v : node.inputs) EXPECT_LT(graph.node(v).group, std::max(node.group, 0));
    order_groups(again, {});
    EXPECT_EQ(order_of(again), order_of(graph));
  }
  EXPECT_GT(fewer, 20);
}

}  // namespace
}  // namespace tenon
