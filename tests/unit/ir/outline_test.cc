// src/ir/outline.h: which sets of nodes have equal outlines.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/ir/outline.h"
#include "src/ir/text.h"

namespace tenon {
namespace {

// Two layers of a graph: %a1, %a2, ... read %x and %k, %b1, %b2, ... read %y and %k.
struct Layers {
  std::string x = "f32[4,N]", y = "f32[4,N]";  // the types of %x and %y
  std::string a, b;                            // the lines of both layers
  std::string returned = "%a2, %b2";
};

// The outlines of the nodes named a1, a2, ... and of those named b1, b2, ...
std::pair<std::string, std::string> outlines(const Layers& layers) {
  const std::string text = "graph @g(%x: " + layers.x + ", %y: " + layers.y + ", %k: f32[N]) {\n" + layers.a +
                           "\n" + layers.b + "\n  return " + layers.returned + "\n}";
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return {};
  const Uses uses(*graph);
  const Outlines all(*graph, uses);
  auto of = [&](char layer) {
    std::vector<ValueId> members;
    for (ValueId v = 0; v < graph->nodes.size(); ++v)
      if (const std::string& name = graph->node(v).name; name.size() == 2 && name[0] == layer)
        members.push_back(v);
    return all.of(members);
  };
  return {of('a'), of('b')};
}

const Layers kSame = {.a = "  %a1 = relu(%x)\n  %ka = reshape(%k){shape=[1,N]}\n  %a2 = add(%a1, %ka)",
                      .b = "  %b1 = relu(%y)\n  %kb = reshape(%k){shape=[1,N]}\n  %b2 = add(%b1, %kb)"};

bool equal(const Layers& layers) {
  const auto [a, b] = outlines(layers);
  EXPECT_FALSE(a.empty());
  return a == b;
}

// The layers of kSame with a change of the second one.
Layers with(std::string_view from, std::string_view to) {
  Layers changed = kSame;
  const size_t at = changed.b.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) changed.b.replace(at, from.size(), to);
  return changed;
}

TEST(Outlines, AreThoseOfTheStructure) {
  EXPECT_TRUE(equal(kSame));
  EXPECT_FALSE(equal(with("relu", "exp"))) << "an op";
  EXPECT_FALSE(equal(with("(%b1, %kb)", "(%kb, %b1)"))) << "the order of operands";
  EXPECT_FALSE(equal(with("add(%b1, %kb)", "add(%b1, %y)"))) << "a value read twice";
  EXPECT_FALSE(equal(with("reshape(%k){shape=[1,N]}", "slice(%y){axis=0, start=0, end=1}"))) << "a view";
  Layers typed = kSame;
  typed.y = "f32[5,N]";
  EXPECT_FALSE(equal(typed)) << "a shape";
}

TEST(Outlines, HaveAttributes) {
  Layers layers = {.a = "  %a1 = sum(%x){axes=[0]}\n  %a2 = neg(%a1)",
                   .b = "  %b1 = sum(%y){axes=[0]}\n  %b2 = neg(%b1)"};
  EXPECT_TRUE(equal(layers));
  layers.b = "  %b1 = sum(%y){axes=[1]}\n  %b2 = neg(%b1)";
  layers.x = layers.y = "f32[N,N]";
  EXPECT_FALSE(equal(layers));
  Layers numbers = {
      .a = "  %sa = full{value=2.0, shape=[], dtype=f32}\n  %a1 = mul(%x, %sa)\n  %a2 = neg(%a1)",
      .b = "  %sb = full{value=2.0, shape=[], dtype=f32}\n  %b1 = mul(%y, %sb)\n  %b2 = neg(%b1)"};
  EXPECT_TRUE(equal(numbers));
  numbers.b.replace(numbers.b.find("2.0"), 3, "3.0");
  EXPECT_FALSE(equal(numbers));
}

TEST(Outlines, HaveStridesOfStoredValues) {
  Layers layers = kSame;
  layers.y += " strides=[1,4]";
  EXPECT_FALSE(equal(layers));
  layers.x += " strides=[1,4]";
  EXPECT_TRUE(equal(layers));
  layers = kSame;
  layers.returned = "%a2, %b2 strides=[1,4]";
  EXPECT_FALSE(equal(layers));
}

TEST(Outlines, TellMembersThatOthersNeed) {
  Layers layers = kSame;
  layers.returned = "%a2, %b2, %b1";
  EXPECT_FALSE(equal(layers));
  layers.returned = "%a2, %a1, %b2, %b1";
  EXPECT_TRUE(equal(layers));
  layers = kSame;
  layers.b += "\n  %other = exp(%b1)";
  layers.returned = "%a2, %b2, %other";
  EXPECT_FALSE(equal(layers));
}

// The values of equal outlines correspond, in whatever order the graph has them.
TEST(Outlines, HaveCorrespondingValues) {
  auto graph = parse_graph(
      "graph @g(%x: f32[4], %y: f32[4]) {\n  %a = sub(%x, %y)\n  %b = sub(%y, %x)\n  %c = sub(%x, %x)\n"
      "  return %a, %b, %c\n}");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Uses uses(*graph);
  const Outlines all(*graph, uses);
  std::vector<ValueId> a, b, c;
  EXPECT_EQ(all.of(std::vector<ValueId>{2}, &a), all.of(std::vector<ValueId>{3}, &b));
  EXPECT_NE(all.of(std::vector<ValueId>{2}), all.of(std::vector<ValueId>{4}, &c));
  EXPECT_EQ(a, (std::vector<ValueId>{2, 0, 1}));
  EXPECT_EQ(b, (std::vector<ValueId>{3, 1, 0}));
  EXPECT_EQ(c, (std::vector<ValueId>{4, 0}));
}

TEST(Outlines, TakeTheStridesThatAreGiven) {
  auto graph = parse_graph(
      "graph @g(%x: f32[4,4], %y: f32[4,4]) {\n  %a = exp(%x)\n  %b = exp(%y)\n  return %a, %b\n}");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Uses uses(*graph);
  const auto equal = [&](ValueId columns) {
    const Outlines all(*graph, uses, [=](ValueId v) { return v == columns ? Dims{1, 4} : Dims{4, 1}; });
    return all.of(std::vector<ValueId>{2}) == all.of(std::vector<ValueId>{3});
  };
  EXPECT_TRUE(equal(9));
  EXPECT_FALSE(equal(1)) << "an operand";
  EXPECT_FALSE(equal(3)) << "a result";
}

}  // namespace
}  // namespace tenon
