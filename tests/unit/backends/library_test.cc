// What every library needs: operands with the axes of the result, sizes, keys, epilogues, chains in front of an activation, the
// positions of buffers, and the algorithms that are kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/library/by_alignment.h"
#include "backends/library/call.h"
#include "backends/library/epilogue.h"
#include "backends/library/kept_algorithms.h"
#include "backends/library/operands.h"
#include "backends/library/tensor.h"
#include "src/ir/op.h"
#include "src/ir/text.h"
#include "src/ops/rows/names.h"

namespace tenon::library {
namespace {

using testing::ElementsAre;

Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  return *graph;
}
ValueId value(const Graph& g, const std::string& name) {
  for (ValueId v = 0; v < g.nodes.size(); ++v)
    if (g.value_name(v) == name) return v;
  TENON_CHECK(false, "no value " + name);
}
StridesOf bound(const Graph& g) {
  return [&g](ValueId v) { return bound_strides(g, v); };
}

TEST(Library, SpreadsAnOperandOverTheResult) {
  const Graph g = parsed("graph @f(%x: f32[3,1]) {\n return %x\n}");
  const Operand x = stored_operand(g, value(g, "%x"));
  const Dims shape{Dim(2), Dim(3), Dim(4)};
  const auto o = spread(x, shape);
  ASSERT_TRUE(o.has_value());
  EXPECT_EQ(o->shape, shape);
  EXPECT_EQ(o->strides, (Dims{Dim(0), Dim(1), Dim(0)}));
  EXPECT_FALSE(spread(x, {Dim(3)}).has_value()) << "more axes than the result";
  EXPECT_FALSE(spread(x, {Dim(2), Dim(4)}).has_value()) << "a longer axis than the result";
}

TEST(Library, ReadsViewsInPlaceOrAsTheyAreCopied) {
  const Graph g =
      parsed("graph @f(%x: f32[N,4]) {\n %y = transpose(%x){perm=[1,0]}\n %z = abs(%y)\n return %z\n}");
  const ValueId x = value(g, "%x"), y = value(g, "%y");
  const Sizes sizes{g.dims.get(), {3}};
  const Tensor view = at_sizes(read(g, y, bound(g), true), sizes);
  EXPECT_THAT(view.dims, ElementsAre(4, 3));
  EXPECT_THAT(view.strides, ElementsAre(1, 4));
  EXPECT_EQ(view.count(), 12);
  EXPECT_EQ(view.bytes(), 48);
  EXPECT_EQ(read(g, y, bound(g), true).base, x);
  const Operand copy = read(g, y, bound(g), false);
  EXPECT_EQ(copy.base, y);
  EXPECT_THAT(at_sizes(copy, sizes).strides, ElementsAre(3, 1));
  const StridesOf apart = [](ValueId) { return Dims{Dim(9), Dim(1)}; };
  EXPECT_THAT(at_sizes(written(g, y, apart), sizes).strides, ElementsAre(9, 1));
}

TEST(Library, PlainStrides) {
  EXPECT_THAT(plain_strides({2, 3, 4, 5}), ElementsAre(60, 20, 5, 1));
  EXPECT_THAT(plain_strides({2, 3, 4, 5}, true), ElementsAre(60, 1, 15, 3));
  EXPECT_THAT(plain_strides({2, 0, 4}), ElementsAre(4, 4, 1));
  EXPECT_EQ(by({2, 64, 1}), "2x64x1");
}

TEST(Library, KeysOfListsTellWhereAListEnds) {
  std::string a, b;
  add_to_key(a, {1, 2}), add_to_key(a, {3});
  add_to_key(b, {1}), add_to_key(b, {2, 3});
  EXPECT_NE(a, b);
}

TEST(Library, TheOtherOperandOfAnEpilogue) {
  const Graph g = parsed(R"(graph @f(%x: f32[4], %c: f32[4]) {
    %two = full(){value=2, shape=[4], dtype=f32}
    %a = sub(%x, %c)
    %b = sub(%two, %x)
    %d = mul(%x, %x)
    %e = abs(%x)
    return %a, %b, %d, %e
  })");
  const auto other = [&](const char* name) {
    return other_operand(g, value(g, "%x"), g.node(value(g, name)), " is no epilogue");
  };
  EXPECT_EQ(other("%a")->value, value(g, "%c"));
  EXPECT_TRUE(other("%a")->second);
  EXPECT_FALSE(other("%a")->number.has_value());
  EXPECT_FALSE(other("%b")->second);
  EXPECT_EQ(other("%b")->number, 2);
  EXPECT_EQ(other("%d").status().message(), "it reads the library's result twice");
  EXPECT_EQ(other("%e").status().message(), "abs is no epilogue");
}

TEST(Library, ChainsInFrontOfAnActivation) {
  const Graph g = parsed(R"(graph @f(%x: f32[4,4], %w: f32[4,4]) {
    %m = matmul(%x, %w)
    %s = matmul(%x, %x)
    %a = add(%m, %s)
    %y = relu(%a)
    %t = abs(%s)
    return %y, %t
  })");
  using Members = std::vector<ValueId>;
  const auto chains = [&](size_t longest) {
    std::vector<Members> found;
    each_chain(g, value(g, "%y"),
               {[](const Node& node) { return node.op == ops::matmul; },
                [](const Node& node) { return op(node.op).kind == Kind::map; }, longest},
               [&](std::span<const ValueId> members) {
                 found.emplace_back(members.begin(), members.end());
                 return false;
               });
    return found;
  };
  EXPECT_THAT(chains(2), ElementsAre(Members{value(g, "%m"), value(g, "%a"), value(g, "%y")}))
      << "%s is read elsewhere too";
  EXPECT_TRUE(chains(1).empty()) << "two nodes stand behind the product";
}

struct Chosen {
  int64_t alignment;
  int64_t bytes() const { return 1; }
};

TEST(Library, AlgorithmsAreMadeOnceAndFailuresAreNotKept) {
  auto& kept = kept_algorithms<Chosen>();
  int asked = 0;
  const auto ask = [&](const std::string& key, bool works) {
    return kept.get(key, [&]() -> Result<std::shared_ptr<const Chosen>> {
      ++asked;
      if (!works) return unsupported("none");
      return std::make_shared<const Chosen>(Chosen{16});
    });
  };
  const std::string key = algorithm_key(0, 16, 1024, "problem");
  EXPECT_NE(key, algorithm_key(1, 16, 1024, "problem"));
  EXPECT_NE(key, algorithm_key(0, 8, 1024, "problem"));
  EXPECT_NE(key, algorithm_key(0, 16, 0, "problem"));
  EXPECT_EQ(ask(key, false).status().message(), "none");
  const auto first = ask(key, true);
  EXPECT_EQ(*ask(key, false), *first);
  EXPECT_EQ(asked, 2);
}

TEST(Library, AlgorithmsByAlignment) {
  ByAlignment<Chosen> all;
  all.keep_most(std::make_shared<const Chosen>(Chosen{16}));
  int asked = 0;
  const auto at = [&](uintptr_t bits) {
    return all.at(bits, [&](int64_t alignment) -> Result<std::shared_ptr<const Chosen>> {
      ++asked;
      if (alignment == 1) return unsupported("none");
      return std::make_shared<const Chosen>(Chosen{alignment});
    });
  };
  EXPECT_EQ((*at(4096))->alignment, 16);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ((*at(4096 | 12))->alignment, 4);
  EXPECT_EQ((*at(4))->alignment, 4);
  EXPECT_EQ(asked, 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(at(1).status().message(), "none");
  EXPECT_EQ(asked, 2) << "the library's answer that it has none is kept";
  EXPECT_EQ(all.bytes(), 2);
}

struct OneCall final : Call {
  Result<std::unique_ptr<Step>> prepare(const Sizes&) override { return unsupported("never run"); }
};

TEST(Library, ACallKnowsItsBuffersAndTheTextOfItsNewestPlan) {
  const Graph g = parsed("graph @f(%x: f32[2,4], %w: f32[4,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  const ValueId m = value(g, "%m");
  Operand w = stored_operand(g, value(g, "%w")), result = stored_operand(g, m);
  Operand* operands[] = {&w};
  OneCall call;
  call.name = "product";
  call.bind(g, {&m, 1}, operands, result);
  EXPECT_EQ(call.inputs[static_cast<size_t>(w.buffer)], w.base);
  EXPECT_EQ(result.buffer, 2);
  EXPECT_THAT(call.outputs, ElementsAre(m));
  EXPECT_EQ(call.describe(), "product");
  call.planned("product 2x3x4");
  EXPECT_EQ(call.describe(), "product 2x3x4");
  Operand stranger = result;
  operands[0] = &stranger;
  EXPECT_ANY_THROW(call.bind(g, {&m, 1}, operands, result))
      << "the group does not list its result as an input";
}

}  // namespace
}  // namespace tenon::library
