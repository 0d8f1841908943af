// Reading and writing symbol JSON of all versions (src/mxnet/symbol.h, upgrade.h).
#include "src/mxnet/symbol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/symbol_text.h"

namespace tenon::mxnet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Symbol parsed(const std::string& json) {
  auto symbol = parse_symbol(json);
  EXPECT_TRUE(symbol.ok()) << symbol.status().message() << "\n" << json;
  return symbol.ok() ? std::move(*symbol) : Symbol();
}

std::string refusal(const std::string& json) {
  const auto symbol = parse_symbol(json);
  EXPECT_FALSE(symbol.ok()) << json;
  return symbol.status().message();
}

const SymbolText kLayer(R"(fc = FullyConnected(data weight bias){num_hidden=4; no_bias=False}
                           return fc)");

TEST(Symbol, AttributesMayBeUnderThreeKeys) {
  for (const char* key : {"attrs", "attr", "param"}) {
    const Symbol s = parsed(kLayer.json(key));
    ASSERT_EQ(s.nodes.size(), 4u);
    EXPECT_THAT(s.nodes[3].attrs, ElementsAre(Pair("no_bias", "False"), Pair("num_hidden", "4")));
    EXPECT_EQ(s.version, 10901);
  }
}

TEST(Symbol, OldNodesHaveParametersAndAttributes) {
  const Symbol s = parsed(R"({"nodes": [
      {"op": "null", "param": {}, "name": "x", "inputs": [], "backward_source_id": -1, "attr": {"lr_mult": "2"}},
      {"op": "relu", "param": {"a": "1"}, "attr": {"b": "2"}, "name": "r", "inputs": [[0, 0]], "backward_source_id": -1}],
      "arg_nodes": [0], "heads": [[1, 0]]})");
  EXPECT_THAT(s.nodes[0].attrs, ElementsAre(Pair("__lr_mult__", "2")));
  EXPECT_THAT(s.nodes[1].attrs, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_THAT(s.nodes[1].inputs, ElementsAre(Entry{0, 0, 0}));
}

TEST(Symbol, AnAttributeOfAnInputMovesToTheVariable) {
  const Symbol s = parsed(
      SymbolText(R"(fc = FullyConnected(data weight bias){num_hidden=4; weight_lr_mult=0.1; ctx_group=a;
                                        return fc)")
          .json("attr"));
  EXPECT_THAT(s.nodes[1].attrs, ElementsAre(Pair("__lr_mult__", "0.1")));
  EXPECT_THAT(s.nodes[3].attrs, ElementsAre(Pair("__ctx_group__", "a"), Pair("num_hidden", "4")));
}

TEST(Symbol, FilesBefore09GetTheirAuxiliaryVariables) {
  const SymbolText text("bn = BatchNorm(x g b){eps=0.1}\nr = relu(bn)\nreturn r");
  const Symbol s = parsed(text.json("param"));
  ASSERT_EQ(s.nodes.size(), 7u);
  EXPECT_EQ(s.nodes[3].name, "bn_moving_mean");
  EXPECT_EQ(s.nodes[4].name, "bn_moving_var");
  EXPECT_THAT(s.nodes[5].inputs,
              ElementsAre(Entry{0, 0, 0}, Entry{1, 0, 0}, Entry{2, 0, 0}, Entry{3, 0, 0}, Entry{4, 0, 0}));
  EXPECT_THAT(s.heads, ElementsAre(Entry{6, 0, 0}));
}

TEST(Symbol, Before095TheAxisMinus1OfArgmaxIsAllAxes) {
  const SymbolText text("a = argmax(x){axis=-1}\nreturn a");
  EXPECT_EQ(parsed(text.json("attr", R"(, "attrs": {"mxnet_version": ["int", 904]})")).nodes[1].attr("axis"),
            nullptr);
  EXPECT_NE(parsed(text.json("attr", R"(, "attrs": {"mxnet_version": ["int", 905]})")).nodes[1].attr("axis"),
            nullptr);
  EXPECT_NE(parsed(text.json()).nodes[1].attr("axis"), nullptr);
}

TEST(Symbol, SubgraphsNest) {
  const std::string inner = symbol_json("r = relu(x)\nreturn r");
  const std::string outer =
      R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "_foreach", "name": "loop",
      "inputs": [[0, 0, 0]], "subgraphs": [)" +
      inner + R"(]}], "heads": [[1, 0, 0]]})";
  const Symbol s = parsed(outer);
  ASSERT_EQ(s.nodes[1].subgraphs.size(), 1u);
  EXPECT_EQ(s.nodes[1].subgraphs[0].nodes[1].op, "relu");
  EXPECT_EQ(print_symbol(parsed(print_symbol(s))), print_symbol(s));
}

TEST(Symbol, WhatIsPrintedIsReadAgain) {
  const std::string json = R"json({"nodes": [
      {"op": "null", "name": "a\"\\\n\u0001\u00e4", "attrs": {"__shape__": "(0, 3)"}, "inputs": []},
      {"op": "BatchNorm", "name": "", "inputs": [[0, 0, 3], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], "control_deps": [0]}],
      "arg_nodes": [0], "node_row_ptr": [0, 1, 4], "heads": [[1, 0, 0]],
      "attrs": {"is_np_shape": ["int", 1], "mxnet_version": ["int", 10700]}})json";
  const Symbol s = parsed(json);
  EXPECT_TRUE(s.is_np_shape);
  EXPECT_EQ(s.nodes[1].outputs, 3u);
  const std::string text = print_symbol(s);
  EXPECT_THAT(text, HasSubstr("\"node_row_ptr\": [0, 1, 4]"));
  EXPECT_THAT(text, HasSubstr("[\"int\", 10901]"));
  const Symbol again = parsed(text);
  EXPECT_EQ(again.nodes[0].name, s.nodes[0].name);
  EXPECT_EQ(again.nodes[1].inputs, s.nodes[1].inputs);
  EXPECT_EQ(print_symbol(again), text);
}

TEST(Symbol, MistakesHaveAPlace) {
  const std::string variable = R"({"op": "null", "name": "x", "inputs": []})";
  auto nodes = [](const std::string& list, const std::string& heads = "[]") {
    return "{\"nodes\": [" + list + "], \"heads\": " + heads + "}";
  };
  EXPECT_THAT(refusal(""), HasSubstr("byte"));
  EXPECT_THAT(refusal("{\"nodes\": [1,]}"), HasSubstr("byte 14"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("'nodes'"));
  EXPECT_THAT(refusal("{\"nodes\": []}"), HasSubstr("'heads'"));
  EXPECT_THAT(refusal(nodes("1")), HasSubstr("node 0"));
  EXPECT_THAT(refusal(nodes("{\"name\": \"x\"}")), HasSubstr("'op'"));
  EXPECT_THAT(refusal(nodes(R"({"op": 1, "name": "x"})")), HasSubstr("node 0: 'op' is no string"));
  EXPECT_THAT(refusal(nodes(R"({"op": "relu", "name": "r", "inputs": [[0, 0, 0]]})")),
              HasSubstr("relu 'r'): input 0 names node 0"));
  EXPECT_THAT(refusal(nodes(variable + R"(, {"op": "relu", "name": "r", "inputs": [[0]]})")),
              HasSubstr("1 numbers"));
  EXPECT_THAT(refusal(nodes(variable + R"(, {"op": "relu", "name": "r", "inputs": [[0, -1]]})")),
              HasSubstr("input 0"));
  EXPECT_THAT(refusal(nodes(variable + R"(, {"op": "null", "name": "y", "inputs": [[0, 0]]})")),
              HasSubstr("has inputs"));
  EXPECT_THAT(refusal(nodes(variable + R"(, {"op": "r", "name": "y", "control_deps": [1]})")),
              HasSubstr("control"));
  EXPECT_THAT(refusal(nodes(variable, "[[1, 0, 0]]")), HasSubstr("head 0"));
  EXPECT_THAT(refusal(nodes(R"({"op": "r", "name": "x", "attrs": {"a": 1}})")),
              HasSubstr("'a' is no string"));
  EXPECT_THAT(refusal(nodes(R"({"op": "r", "op": "s", "name": "x"})")), HasSubstr("'op' is given twice"));
  EXPECT_THAT(refusal(R"({"nodes": [], "arg_nodes": [0], "heads": []})"), HasSubstr("arg_nodes"));
  EXPECT_THAT(refusal(std::string(100000, '[')), HasSubstr("nested deeper"));
}

TEST(Symbol, EveryCutIsRefused) {
  const std::string json = kLayer.json();
  for (size_t n = 0; n < json.size(); ++n) EXPECT_THAT(refusal(json.substr(0, n)), HasSubstr("byte")) << n;
}

}  // namespace
}  // namespace tenon::mxnet
