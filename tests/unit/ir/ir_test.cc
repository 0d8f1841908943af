// src/ir: building, inference, messages, verification, hash, and texts that no golden file has: long, deep, broken, mutated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "src/base/text.h"
#include "src/ir/builder.h"
#include "src/ir/hash.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/ops/rows/names.h"
#include "tests/support/paths.h"
#include "tests/support/sanitized.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Graph read(std::string_view text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(*graph) : Graph();
}

std::string errors(std::string_view text) { return parse_graph(text).status().message(); }

// ---- builder ----

TEST(Builder, BuildsWhatTheTextSays) {
  Graph g;
  g.name = "mlp";
  Builder b(g);
  Dim n = g.dims->symbol("N");
  ValueId x = *b.try_input("x", {DType::f32, {n, 8}});
  ValueId w = *b.try_input("w", {DType::f32, {8, 4}});
  g.inputs[1].param = true;
  ValueId h = *b.try_add(ops::matmul, {x, w}, {}, "h");
  ValueId half = b.scalar(0.5, DType::f32);
  ValueId y = *b.try_add(ops::mul, {h, half}, {}, "y");
  ValueId s = *b.try_add(ops::sum, {y}, {{"axes", Dims{-1}}});
  g.outputs = {{y, std::nullopt}, {s, std::nullopt}};
  EXPECT_TRUE(verify(g).ok());
  EXPECT_EQ(print(g),
            "graph @mlp(%x: f32[N,8], %w: f32[8,4] param) {\n"
            "  %h = matmul(%x, %w) : f32[N,4]\n"
            "  %3 = full{value=0.5, shape=[], dtype=f32} : f32[]\n"
            "  %y = mul(%h, %3) : f32[N,4]\n"
            "  %5 = sum(%y){axes=[-1]} : f32[N]\n"
            "  return %y, %5\n"
            "}\n");
  EXPECT_EQ(print(read(print(g))), print(g));
  EXPECT_EQ(print_node(g, h), "%h = matmul(%x, %w) : f32[N,4]");
  EXPECT_THAT(g.use_counts(), ElementsAre(1, 1, 1, 1, 2, 1));
  EXPECT_THAT(g.users()[y], ElementsAre(s));
}

TEST(Builder, InputsMayBeDeclaredLate) {
  Graph g;
  Builder b(g);
  ValueId c = b.scalar(2, DType::f32);
  ValueId x = *b.try_input("", {DType::f32, {3}});
  ValueId y = b(ops::mul, {x, c});
  g.outputs = {{y, std::nullopt}};
  EXPECT_TRUE(verify(g).ok());
  EXPECT_EQ(print(read(print(g))), print(g));
}

TEST(Builder, Helpers) {
  Graph g;
  Builder b(g);
  Dim n = g.dims->symbol("N");
  ValueId x = *b.try_input("x", {DType::f16, {n, 4}});
  EXPECT_EQ(b.cast(x, DType::f16), x);
  EXPECT_EQ(b.type(b.cast(x, DType::f32)).dtype, DType::f32);
  EXPECT_EQ(b.reshape(x, {n, 4}), x);
  EXPECT_EQ(b.shape(b.reshape(x, {g.dims->mul(n, 4)})), (Dims{g.dims->mul(n, 4)}));
  EXPECT_EQ(attr_as<Scalar>(g.node(b.scalar(3, DType::i32)), "value"), Scalar::of(int64_t{3}));
  EXPECT_EQ(attr_as<Scalar>(g.node(b.scalar(3, DType::f32)), "value"), Scalar::of(3.0));
  EXPECT_EQ(attr_as<Scalar>(g.node(b.scalar_int(INT64_MIN, DType::i64)), "value"), Scalar::of(INT64_MIN));
  EXPECT_EQ(attr_as<Dim>(g.node(b.size(n, DType::f32)), "value"), n);
  EXPECT_EQ(g.node(b.size(7, DType::i64)).op, ops::full);
  ValueId r = b(ops::sum, {x}, {{"axes", Dims{0, -1}}, {"keepdims", true}});
  EXPECT_THAT(attr_ints(g.node(r), "axes"), ElementsAre(0, -1));
  EXPECT_THROW(attr(g.node(r), "axis"), InternalError);
  EXPECT_THROW(attr_int(g.node(b.size(n, DType::i64)), "value"), InternalError);
  EXPECT_THROW(b(ops::add, {x}), InternalError);
}

TEST(Builder, ANameThatIsTakenIsLeftOut) {
  Graph g;
  Builder b(g);
  const ValueId x = *b.try_input("x", {DType::f32, {2}});
  Node node = g.node(b(ops::neg, {x}));
  node.name = "y";
  EXPECT_EQ(g.node(b.add(node)).name, "y");
  EXPECT_EQ(g.node(b.add(node)).name, "");
}

TEST(Builder, RefusalsNameTheNodeAndTypes) {
  Graph g;
  Builder b(g);
  ValueId x = *b.try_input("x", {DType::f32, {2, 3}});
  ValueId y = *b.try_input("y", {DType::f32, {4, 5}});
  ValueId i = *b.try_input("i", {DType::i32, {2, 3}});
  auto refusal = [](const auto& result) {
    EXPECT_FALSE(result.ok());
    return std::string(code_name(result.status().code())) + " " + result.status().message();
  };
  EXPECT_THAT(refusal(b.try_add(ops::matmul, {x, y}, {}, "h")),
              AllOf(HasSubstr("invalid"), HasSubstr("h"), HasSubstr("matmul"), HasSubstr("f32[2,3]"),
                    HasSubstr("f32[4,5]")));
  EXPECT_THAT(refusal(b.try_add(ops::add, {x, i}, {}, "h")),
              AllOf(HasSubstr("f32"), HasSubstr("i32"), HasSubstr("h")));
  EXPECT_THAT(refusal(b.try_add(ops::add, {x, x, x})), HasSubstr("takes 2 operands, given 3"));
  EXPECT_THAT(refusal(b.try_add(ops::concat, {}, {{"axis", Dim(0)}})), HasSubstr("at least 1 operand"));
  EXPECT_THAT(refusal(b.try_add(ops::linear, {x})), HasSubstr("takes 2 to 3 operands, given 1"));
  EXPECT_THAT(refusal(b.try_add(ops::add, {x, 77})), HasSubstr("no such operand %77"));
  EXPECT_THAT(refusal(b.try_add(OpId{60000}, {x})), HasSubstr("unknown op number 60000"));
  EXPECT_THAT(refusal(b.try_add(ops::input, {})), HasSubstr("inputs are declared"));
  EXPECT_THAT(refusal(b.try_add(ops::neg, {x}, {}, "x")), HasSubstr("%x is taken"));
  EXPECT_THAT(refusal(b.try_add(ops::neg, {x}, {}, "a b")), HasSubstr("name"));
  EXPECT_THAT(refusal(b.try_input("x", {DType::f32, {}})), HasSubstr("%x is taken"));
  EXPECT_THAT(refusal(b.try_input("z", {DType::f32, {-1}})),
              AllOf(HasSubstr("%z"), HasSubstr("negative size in f32[-1]")));
  EXPECT_THAT(refusal(b.try_input("z", {DType::f32, Dims(17, Dim(1))})), HasSubstr("rank 17 is above 16"));
  EXPECT_THAT(refusal(b.try_input("z", {DType::f32, {g.dims->overflow()}})), HasSubstr("too large"));
  EXPECT_THAT(refusal(b.try_input("z", {DType::f32, {Dim(INT64_MIN + 1000)}})),
              HasSubstr("not of this graph"));
  EXPECT_THAT(refusal(b.try_add(ops::sum, {x}, {{"axes", Dims{0}}, {"axes", Dims{0}}})),
              HasSubstr("given twice"));
  EXPECT_THAT(refusal(b.try_add(ops::sum, {x}, {{"axis", Dims{0}}})), HasSubstr("needs attribute axes"));
  EXPECT_THAT(refusal(b.try_add(ops::sum, {x}, {{"axes", Dims{0}}, {"keepdim", true}}, "r")),
              AllOf(HasSubstr("%r"), HasSubstr("no attribute keepdim, did you mean 'keepdims'?")));
  EXPECT_THAT(refusal(b.try_add(ops::sum, {x}, {{"axes", Dim(0)}})),
              HasSubstr("attribute axes must be a list of integers, not an integer"));
  EXPECT_THAT(
      refusal(b.try_add(ops::full, {},
                        {{"value", 1.0}, {"shape", Dims{g.dims->overflow()}}, {"dtype", DType::f32}})),
      HasSubstr("attribute shape: a size too large"));
  EXPECT_EQ(g.nodes.size(), 3u);
}

TEST(Builder, NumbersFitTheAttribute) {
  Graph g;
  Builder b(g);
  ValueId c = *b.try_add(ops::full, {}, {{"value", Dim(2)}, {"shape", Dims{}}, {"dtype", DType::f32}});
  EXPECT_EQ(attr_as<Scalar>(g.node(c), "value"), Scalar::of(int64_t{2}));
  ValueId l = *b.try_add(ops::leaky_relu, {c}, {{"slope", Dim(1)}});
  EXPECT_EQ(attr_as<double>(g.node(l), "slope"), 1.0);
  EXPECT_FALSE(b.try_add(ops::leaky_relu, {c}, {{"slope", std::string("1")}}).ok());
}

// ---- scalars ----

TEST(Scalar, EqualByBits) {
  EXPECT_EQ(Scalar::of(NAN), Scalar::of(NAN));
  EXPECT_FALSE(Scalar::of(0.0) == Scalar::of(-0.0));
  EXPECT_FALSE(Scalar::of(1.0) == Scalar::of(int64_t{1}));
  EXPECT_EQ(Scalar::of(int64_t{5}).as_double(), 5.0);
}

TEST(DTypes, OneTable) {
  for (int i = 0; i < kDTypeCount; ++i) {
    DType t = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(t)), t);
    EXPECT_EQ(dtype_from_dlpack(info(t).dlpack_code, info(t).dlpack_bits), t);
    EXPECT_EQ(size_of(t) * 8, info(t).dlpack_bits);
  }
  EXPECT_EQ(parse_dtype("b8"), std::nullopt);
  EXPECT_EQ(name(DType::b8), "bool");
}

// ---- verify: broken in ways the parser cannot spell ----

std::string broken(const std::function<void(Graph&)>& damage) {
  Graph g = read(
      "graph @g(%x: f32[N,2], %y: f32[N,2]) {\n  %a = add(%x, %y)\n  %b = sum(%a){axes=[0]}\n  return %b\n}");
  EXPECT_TRUE(verify(g).ok());
  damage(g);
  Status s = verify(g);
  EXPECT_TRUE(s.ok() || s.code() == Code::invalid);
  return s.message();
}

TEST(Verify, EveryInvariant) {
  EXPECT_THAT(broken([](Graph& g) { g.nodes[2].op = 50000; }), HasSubstr("%a: unknown op number 50000"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[2].inputs[1] = 9; }), HasSubstr("%a: no such operand %9"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[2].inputs[1] = 3; }),
              HasSubstr("%a: operand %b does not stand before it"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[2].inputs[1] = 2; }),
              HasSubstr("%a: operand %a does not stand before it"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[3].attrs.pop_back(); }),
              HasSubstr("%b: %b = sum(%a: f32[N,2]): needs 2 attributes, has 1"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[3].attrs[0] = true; }),
              HasSubstr("attribute axes must be a list of integers, not true or false"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[3].attrs[0] = Dims{Dim(INT64_MIN + 99)}; }),
              HasSubstr("not of this graph"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[3].type.dtype = DType::f64; }),
              HasSubstr("%b: has type f64[2], inferred is f32[2]"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[2].type.shape = {Dim(INT64_MIN + 99)}; }),
              HasSubstr("%a: a size that is not of this graph"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[2].type.shape = Dims(20, Dim(1)); }), HasSubstr("rank 20"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[3].name = "a"; }), HasSubstr("%a: the name is taken"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[3].name = "3"; }), HasSubstr("cannot be spelled"));
  EXPECT_THAT(broken([](Graph& g) { g.name = "a b"; }), HasSubstr("the graph: its name"));
  EXPECT_THAT(broken([](Graph& g) { g.inputs.pop_back(); }),
              HasSubstr("%y: is not listed among the graph's inputs"));
  EXPECT_THAT(broken([](Graph& g) { g.inputs[1].value = 0; }), HasSubstr("%x: is listed twice"));
  EXPECT_THAT(broken([](Graph& g) { g.inputs[1].value = 2; }),
              HasSubstr("%a: is listed as an input, but has op add"));
  EXPECT_THAT(broken([](Graph& g) { g.inputs[1].value = 99; }), HasSubstr("input 1: no such value"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[0].inputs = {0}; }), HasSubstr("%x: operand %x"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[1].inputs = {0}; }), HasSubstr("%y: an input has no operands"));
  EXPECT_THAT(broken([](Graph& g) { g.outputs.clear(); }), HasSubstr("no output"));
  EXPECT_THAT(broken([](Graph& g) { g.outputs[0].value = 4; }), HasSubstr("output 0: no such value"));
  EXPECT_THAT(broken([](Graph& g) { g.outputs[0].strides = Dims{1, 2}; }),
              HasSubstr("%b: 2 strides for rank 1"));
  EXPECT_THAT(broken([](Graph& g) { g.outputs[0].strides = Dims{g.dims->overflow()}; }),
              HasSubstr("%b: a stride without a value"));
  EXPECT_THAT(broken([](Graph& g) { g.outputs[0].strides = Dims{g.dims->symbol("Q")}; }),
              HasSubstr("no input determines the symbol Q"));
  EXPECT_THAT(broken([](Graph& g) { g.inputs[1].symbol = Dim(3); }),
              HasSubstr("%y: defines what is not a symbol"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[2].group = 0; }), HasSubstr("%a: no such group 0"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[2].group = -2; }), HasSubstr("%a: no such group -2"));
  EXPECT_THAT(broken([](Graph& g) { g.groups.push_back({"a b", ""}); }),
              HasSubstr("group 0: its back end's name"));
  // All of this damage in one graph.
  std::string all = broken([](Graph& g) {
    g.nodes[2].inputs[1] = 9;
    g.nodes[3].name = "a";
    g.outputs[0].value = 77;
    g.inputs.pop_back();
  });
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 3) << all;
}

TEST(Verify, OutputsHaveAPlaceForEachElement) {
  struct Layout {
    std::vector<int64_t> shape, strides;
    bool overlaps;
  };
  const Layout layouts[] = {{{4, 4}, {4, 1}, false},
                            {{4, 4}, {1, 4}, false},
                            {{4, 4}, {9, 2}, false},
                            {{4, 4}, {-4, 1}, false},
                            {{2, 3, 4}, {1, 8, 2}, false},
                            {{2, 3, 4, 5}, {60, 1, 15, 3}, false},
                            {{1, 4, 1}, {0, 3, 1}, false},
                            {{4, 0}, {0, 0}, false},
                            {{}, {}, false},
                            {{1}, {0}, false},
                            {{4, 4}, {1, 1}, true},
                            {{4, 4}, {3, 1}, true},
                            {{4, 4}, {0, 1}, true},
                            {{4, 4}, {-3, 1}, true},
                            {{2, 3, 4}, {12, 4, 0}, true},
                            {{2, 3, 4}, {11, 4, 1}, true},
                            {{3, 3}, {INT64_MAX, 1}, false},
                            {{3, 3}, {INT64_MIN, INT64_MIN}, true}};
  for (const Layout& l : layouts)
    EXPECT_EQ(may_overlap(l.shape, l.strides), l.overlaps)
        << testing::PrintToString(l.shape) << " by " << testing::PrintToString(l.strides);
  const auto verified = [](const std::string& rows, const std::string& strides) {
    auto graph = parse_graph("graph @f(%x: f32[" + rows + ",4]) {\n %y = neg(%x)\n return %y strides=[" +
                             strides + "]\n}");
    return graph.ok() ? verify(*graph) : graph.status();
  };
  EXPECT_TRUE(verified("4", "1,4").ok());
  EXPECT_TRUE(verified("N", "1,N").ok());
  EXPECT_THAT(verified("4", "1,1").message(),
              HasSubstr("%y: the output's strides [1,1] put several elements in one place"));
}

// ---- hash ----

TEST(Hash, FollowsStructureNotNames) {
  const std::string base =
      "graph @g(%x: f32[N,M], %y: f32[N,M] param) {\n  %a = add(%x, %y)\n  %c = full{value=1, shape=[M], "
      "dtype=f32}\n"
      "  %k = constant{dtype=i8, shape=[2], data=0x0102}\n  %b = sum(%a){axes=[0]}\n  return %b strides=[1], "
      "%c, %k\n}";
  Hash128 h = hash(read(base));
  auto with = [&](std::vector<std::pair<std::string, std::string>> changes) {
    std::string text = base;
    for (auto& [from, to] : changes) {
      EXPECT_NE(text.find(from), text.npos) << from;
      for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
        text.replace(at, from.size(), to);
    }
    return hash(read(text));
  };
  EXPECT_EQ(h, hash(read(base)));
  EXPECT_EQ(h, with({{"@g", "@other"}, {"%a", "%sum"}, {"%x", "%7"}}));
  EXPECT_EQ(h, with({{"N", "S0"}, {"M", "A"}}));
  EXPECT_NE(h, with({{"M", "N"}}));
  EXPECT_NE(h, with({{"%a = add", "%a = sub"}}));
  EXPECT_NE(h, with({{"add(%x, %y)", "add(%y, %x)"}}));
  EXPECT_NE(h, with({{"f32", "f64"}}));
  EXPECT_NE(h, with({{"value=1,", "value=1.0,"}}));
  EXPECT_NE(h, with({{"0x0102", "0x0103"}}));
  EXPECT_NE(h, with({{"axes=[0]", "axes=[0], keepdims=true"}, {" strides=[1]", ""}}));
  EXPECT_NE(h, with({{" param", ""}}));
  EXPECT_NE(h, with({{" strides=[1]", " strides=[2]"}}));
  EXPECT_NE(h, with({{" strides=[1]", ""}}));
  EXPECT_NE(h, with({{"%c, %k", "%k, %c"}}));
  EXPECT_NE(h, with({{"{\n", "{\n  assume N in [1, 8]\n"}}));
}

// The hash does not depend on the order in which the table got its symbols.
TEST(Hash, IgnoresTheTablesHistory) {
  auto build = [](bool early) {
    Graph g;
    if (early) g.dims->symbol("M");
    Builder b(g);
    Dim n = g.dims->symbol("N"), m = g.dims->symbol("M");
    ValueId x = *b.try_input("x", {DType::f32, {n, m}});
    ValueId y = b.reshape(x, {g.dims->mul(n, m)});
    g.outputs = {{y, std::nullopt}};
    return std::pair(hash(g), print(g));
  };
  EXPECT_EQ(build(false), build(true));
}

// ---- texts no file should hold ----

TEST(Parse, ConstantsKeepTheirBytesAndCutOnlyForReading) {
  Graph g = read("graph @g() {\n  %k = constant{dtype=i8, shape=[4], data=0x0102ff00}\n  return %k\n}");
  const auto& data = attr_as<std::shared_ptr<ConstantData>>(g.node(0), "data");
  EXPECT_EQ(std::string_view(static_cast<const char*>(data->bytes), data->size),
            std::string_view("\x01\x02\xff\x00", 4));
  EXPECT_THAT(print(g, {.data_limit = 2}), HasSubstr("data=0x0102..."));
  EXPECT_FALSE(parse_graph(print(g, {.data_limit = 2})).ok());
}

TEST(Parse, NamesUpToOneMebibyte) {
  std::string name(kMaxName, 'n');
  std::string text =
      "graph @g(%" + name + ": f32[2]) {\n  %b = neg(%" + name + ") : f32[2]\n  return %b\n}\n";
  EXPECT_EQ(print(read(text)), text);
  EXPECT_THAT(errors("graph @g(%" + name + "n: f32[2]) {\n}"), HasSubstr("1:11: name longer than 1 MiB"));
  // Messages stay short.
  EXPECT_LT(errors("graph @g(%" + name + ": f32[2]) {\n  %b = add(%" + name + ", %" + name +
                   "x)\n  %c = add(%" + name + ")\n}")
                .size(),
            2000u);
}

TEST(Parse, ManyErrorsStop) {
  std::string text = "graph @g(%x: f32[2]) {\n";
  for (int i = 0; i < 100000; ++i) text += "  %a" + std::to_string(i) + " = nope(%x)\n";
  std::string all = errors(text);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), kMaxErrors);
  EXPECT_THAT(all, HasSubstr("too many errors"));
}

TEST(Parse, DeepAndLongTexts) {
  std::string text = "graph @g(%x: f32[N]) {\n  %0 = neg(%x)\n";
  for (int i = 1; i < 20000; ++i)
    text += "  %" + std::to_string(i) + " = neg(%" + std::to_string(i - 1) + ") : f32[N]\n";
  Graph g = read(text + "  return %19999\n}");
  EXPECT_TRUE(verify(g).ok());
  EXPECT_EQ(print(read(print(g))), print(g));
  EXPECT_THAT(errors("graph @g(%x: f32[" + std::string(1000000, '(') + "]) {\n}"),
              HasSubstr("nested too deeply"));
  EXPECT_FALSE(parse_graph(std::string(1000000, '{')).ok());
  EXPECT_FALSE(parse_graph(std::string(1000, '\0')).ok());
  EXPECT_FALSE(parse_graph("").ok());
}

TEST(Parse, UnsupportedIsNotInvalid) {
  const char* text = "graph @g(%x: f32[N], %y: f32[M]) {\n  %a = add(%x, %y)\n  return %a\n}";
  EXPECT_EQ(parse_graph(text).status().code(), Code::unsupported);
  EXPECT_EQ(parse_graph(std::string(text) + "!").status().code(), Code::invalid);
}

// ---- mutations ----

std::vector<std::string> valid_texts() {
  std::vector<std::string> out;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(kSourceDirectory) + "/tests")) {
    if (entry.path().extension() != ".tn") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    std::string input = text.str().substr(0, text.str().find("; ---"));
    if (parse_graph(input).ok()) out.push_back(print(*parse_graph(input)));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string mutate(std::string text, const std::vector<std::string>& texts, std::mt19937& random) {
  static const char* kPieces[] = {"%",
                                  "//",
                                  "0",
                                  "-1",
                                  "9223372036854775807",
                                  "4611686018427387904",
                                  "(",
                                  ")",
                                  "[",
                                  "]",
                                  "{",
                                  "}",
                                  "@",
                                  "=",
                                  ",",
                                  "\"",
                                  ":",
                                  "N",
                                  "max(",
                                  "strides=[1]",
                                  " param",
                                  "assume N in [0, 3]\n",
                                  "return ",
                                  "\n",
                                  ";",
                                  "0x",
                                  "1e400",
                                  "nan",
                                  "f32[",
                                  "\xff"};
  auto at = [&](const std::string& s) { return s.empty() ? 0 : random() % s.size(); };
  for (int edits = 1 + static_cast<int>(random() % 3); edits-- > 0;) {
    size_t i = at(text), n = random() % 12;
    switch (random() % 7) {
      case 0: text.erase(i, n); break;
      case 1: text.insert(i, kPieces[random() % std::size(kPieces)]); break;
      case 2:
        if (!text.empty()) text[i] = static_cast<char>(random());
        break;
      case 3: text.insert(at(text), text.substr(i, n)); break;
      case 4: text.resize(i); break;
      case 5: {  // a line is repeated, or taken from another text
        const std::string& from = random() % 2 ? text : texts[random() % texts.size()];
        size_t line = from.rfind('\n', at(from));
        line = line == from.npos ? 0 : line + 1;
        std::string copy = from.substr(line, from.find('\n', line) - line) + "\n";
        size_t to = text.rfind('\n', i);
        text.insert(to == text.npos ? 0 : to + 1, copy);
        break;
      }
      case 6: {  // a number changes
        size_t digit = text.find_first_of("0123456789", i);
        if (digit != text.npos) text.replace(digit, 1, std::to_string(static_cast<int>(random() % 70) - 3));
        break;
      }
    }
  }
  return text;
}

// Any bytes give a status or a graph. A graph that verifies prints as a text that parses to the same graph.
TEST(Parse, MutatedTextsNeverCrash) {
  const std::vector<std::string> texts = valid_texts();
  ASSERT_GE(texts.size(), 4u);
  std::mt19937 random(4);
  int good = 0, rejected = 0, refused = 0;
  constexpr int kMost =
      40000;  // in which some texts parse but do not verify; in few rounds there may be none
  for (int i = 0; i < rounds(kMost) || (refused == 0 && i < kMost); ++i) {
    std::string text = mutate(texts[random() % texts.size()], texts, random);
    SCOPED_TRACE(text);
    try {
      auto graph = parse_graph(text);
      if (!graph.ok()) {
        ASSERT_NE(graph.status().code(), Code::internal);
        ASSERT_FALSE(graph.status().message().empty());
        ++rejected;
        continue;
      }
      std::string printed = print(*graph);
      if (!verify(*graph).ok()) {
        ++refused;
        continue;
      }
      auto again = parse_graph(printed);
      ASSERT_TRUE(again.ok()) << again.status().message();
      ASSERT_EQ(print(*again), printed);
      ASSERT_EQ(hash(*again), hash(*graph));
      ++good;
    } catch (const std::exception& e) {
      FAIL() << e.what();
    }
  }
  // Each of the three outcomes must occur often enough.
  EXPECT_GT(good, rounds(1000));
  EXPECT_GT(rejected, rounds(10000));
  EXPECT_GT(refused, kSanitized ? 0 : 20);
}

}  // namespace
}  // namespace tenon
