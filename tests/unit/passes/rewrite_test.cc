// rewrite(): what a visitor changes is inferred anew, and what it keeps keeps its type.
#include "src/passes/passes.h"

#include <gtest/gtest.h>

#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace {

Graph graph() {
  auto g = parse_graph(
      "graph @g(%x: f32[N,4], %z: f32[N,8]) {\n  %a = exp(%x)\n  %s = sum(%a){axes=[0]}\n  %t = "
      "transpose(%x){perm=[1,0]}\n"
      "  %k = concat(%a, %x){axis=1}\n  return %s, %t, %k\n}\n");
  EXPECT_TRUE(g.ok()) << g.status().message();
  return std::move(*g);
}

std::string type_of(const Graph& g, size_t output) { return g.print_type(g.type(g.outputs[output].value)); }

TEST(Rewrite, KeepsTypes) {
  const Graph out = rewrite(graph(), [](Builder& b, Node&& node, ValueId) { return b.add(std::move(node)); });
  EXPECT_EQ(print(out), print(graph()));
}

TEST(Rewrite, InfersANodeWithAnotherAttribute) {
  const Graph out = rewrite(graph(), [](Builder& b, Node&& node, ValueId) {
    if (node.op == ops::sum) set_attr(node, "axes", Dims{Dim(1)});
    return b.add(std::move(node));
  });
  EXPECT_EQ(type_of(out, 0), "f32[N]");
  EXPECT_TRUE(verify(out).ok());
}

TEST(Rewrite, InfersWhatReadsAnotherType) {
  const Graph from = graph();
  const Graph out = rewrite(from, [&](Builder& b, Node&& node, ValueId) {
    if (node.op == ops::exp) {
      node.name.clear();  // the cast gets it
      return b.cast(b.add(std::move(node)), DType::f64);
    }
    if (node.op == ops::concat) node.inputs[0] = node.inputs[1];
    return b.add(std::move(node));
  });
  EXPECT_EQ(type_of(out, 0), "f64[4]");
  EXPECT_EQ(type_of(out, 2), "f32[N,8]");
  EXPECT_TRUE(verify(out).ok());
}

TEST(Rewrite, InfersWhatReadsOtherOperands) {
  const Graph from = graph();
  const Graph out = rewrite(from, [&](Builder& b, Node&& node, ValueId) {
    if (node.op == ops::transpose) node.inputs[0] = 1;  // %z
    if (node.op == ops::concat) node.inputs.push_back(1);
    return b.add(std::move(node));
  });
  EXPECT_EQ(type_of(out, 1), "f32[8,N]");
  EXPECT_EQ(type_of(out, 2), "f32[N,16]");
  EXPECT_TRUE(verify(out).ok());
}

}  // namespace
}  // namespace tenon
