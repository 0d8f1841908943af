// Translation and inference of types (src/mxnet/translate/translate.h, infer.h). tests/mxnet compares the results with MXNet.
#include "src/mxnet/translate/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/text.h"
#include "src/mxnet/table.h"
#include "tests/support/symbol_text.h"

namespace tenon::mxnet {
namespace {

using testing::HasSubstr;

Result<Graph> translated(const std::string& notation, const std::vector<Given>& given,
                         const Options& options = {}) {
  const auto symbol = parse_symbol(symbol_json(notation));
  EXPECT_TRUE(symbol.ok()) << symbol.status().message();
  return translate(*symbol, options, given);
}

std::string text(const std::string& notation, const std::vector<Given>& given) {
  const auto graph = translated(notation, given);
  return graph.ok() ? print(*graph) : graph.status().message();
}

std::string refusal(const std::string& notation, const std::vector<Given>& given,
                    const Options& options = {}) {
  const auto graph = translated(notation, given, options);
  EXPECT_FALSE(graph.ok()) << notation;
  return graph.status().message();
}

TEST(Translate, ParametersFollowFromTheData) {
  EXPECT_EQ(
      text(R"(conv = Convolution(data conv_weight conv_bias){kernel=(3, 3); num_filter=8; pad=(1, 1)}
                    bn = BatchNorm(conv gamma beta mean var){fix_gamma=False}
                    act = Activation(bn){act_type=relu}
                    fc = FullyConnected(act fc_weight){num_hidden=10; no_bias=True}
                    return fc)",
           {{"data", DType::f32, "N,3,4,4"}}),
      R"(graph @main(%data: f32[N,3,4,4], %conv_weight: f32[8,3,3,3], %conv_bias: f32[8], %gamma: f32[8], %beta: f32[8], %mean: f32[8], %var: f32[8], %fc_weight: f32[10,128]) {
  %conv = convolution(%data, %conv_weight, %conv_bias){strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1]} : f32[N,8,4,4]
  %bn = batch_norm(%conv, %mean, %var, %gamma, %beta){eps=0.0010000000474974513} : f32[N,8,4,4]
  %act = relu(%bn) : f32[N,8,4,4]
  %11 = reshape(%act){shape=[N,128]} : f32[N,128]
  %fc = linear(%11, %fc_weight) : f32[N,10]
  return %fc
}
)");
}

TEST(Translate, BatchNormOfNarrowFloatsHasWideParameters) {
  const std::string graph = text("bn = BatchNorm(data g b m v)\nreturn bn", {{"data", DType::f16, "2,3"}});
  EXPECT_THAT(graph, HasSubstr("%data: f16[2,3], %g: f32[3]"));
  EXPECT_THAT(graph, HasSubstr("f16[2,3]"));
}

TEST(Translate, ZerosTakeTheBatchFromTheirReader) {
  const std::string graph = text(R"(zero = _zeros(){shape=(0, 4)}
                                    h = FullyConnected(zero hw hb){num_hidden=5}
                                    i = FullyConnected(x iw ib){num_hidden=5}
                                    sum = elemwise_add(h i)
                                    return sum)",
                                 {{"x", DType::f32, "N,3"}});
  EXPECT_THAT(graph, HasSubstr("%hw: f32[5,4]"));
  EXPECT_THAT(graph, HasSubstr("shape=[N,4]"));
}

TEST(Translate, ShapesFlowBackwardsThroughElementwiseOperators) {
  EXPECT_THAT(
      text("a = elemwise_add(x y)\nb = tanh(a)\nc = elemwise_mul(b z)\nreturn c", {{"z", DType::f64, "2,M"}}),
      HasSubstr("%x: f64[2,M], %y: f64[2,M], %z: f64[2,M]"));
}

TEST(Translate, LabelsFollowFromTheData) {
  EXPECT_THAT(text("s = SoftmaxOutput(data label)\nreturn s", {{"data", DType::f32, "N,10"}}),
              HasSubstr("%label: f32[N]"));
}

TEST(Translate, VariablesMayStateTheirShape) {
  const std::string json = R"json({"nodes": [
      {"op": "null", "name": "x", "inputs": [], "attrs": {"__shape__": "(2, 3)", "__dtype__": "1"}},
      {"op": "relu", "name": "r", "inputs": [[0, 0, 0]]}], "heads": [[1, 0, 0]]})json";
  const auto symbol = parse_symbol(json);
  ASSERT_TRUE(symbol.ok()) << symbol.status().message();
  const auto graph = translate(*symbol, {}, {});
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_THAT(print(*graph), HasSubstr("%x: f64[2,3]"));
}

TEST(Translate, NamesBecomeNamesOfValues) {
  const std::string graph =
      text("a/b-1 = relu(data:0)\na.b_1 = relu(a/b-1)\na/b_1 = relu(a.b_1)\nreturn a/b_1",
           {{"data", DType::f32, "2"}});
  EXPECT_THAT(graph, HasSubstr("%a_b_1 = relu(%data)"));
  EXPECT_THAT(graph, HasSubstr("%a.b_1 = relu(%a_b_1)"));
  EXPECT_THAT(graph, HasSubstr("%a_b_1_1 = relu(%a.b_1)"));
}

TEST(Translate, MistakesNameTheNode) {
  const std::vector<Given> data = {{"x", DType::f32, "2,3"}};
  EXPECT_THAT(refusal("r = relu(x)\nreturn r", {}),
              HasSubstr("do not determine the shapes of: variable 'x'"));
  EXPECT_THAT(refusal("r = relu(x)\nreturn r", {{"y", DType::f32, "2"}}), HasSubstr("no variable 'y'"));
  EXPECT_THAT(refusal("r = relu(x)\nreturn r", {{"x", DType::f32, "2,"}}), HasSubstr("variable 'x': dims"));
  EXPECT_THAT(refusal("r = mystery(x)\nreturn r", data), HasSubstr("node 1 (mystery 'r')"));
  EXPECT_THAT(refusal("r = elemwise_add(x)\nreturn r", data), HasSubstr("takes 2 operands, given 1"));
  EXPECT_THAT(refusal("r = elemwise_add(x y)\nreturn r", {{"x", DType::f32, "2"}, {"y", DType::f32, "3"}}),
              HasSubstr("node 2 (elemwise_add 'r')"));
  EXPECT_THAT(refusal("r = softmax(x){axis=5}\nreturn r", data),
              HasSubstr("axis 5 is out of range for rank 2"));
  EXPECT_THAT(refusal("r = Reshape(x){shape=(0, 0, 0)}\nreturn r", data), HasSubstr("node 1 (Reshape 'r')"));
  EXPECT_THAT(refusal("r = Dropout(x)\nreturn r:1", data), HasSubstr("its output 1 is read"));
  EXPECT_THAT(refusal("return x:1", data), HasSubstr("one output"));
  EXPECT_THAT(refusal("r = FullyConnected(x w){num_hidden=2}\nreturn r", data),
              HasSubstr("no_bias=False asks for 3"));
}

TEST(Translate, TrainingIsRefusedWhereItDiffers) {
  Options training;
  training.training = true;
  const std::vector<Given> data = {{"x", DType::f32, "2,3"}};
  for (const char* node : {"r = BatchNorm(x g b m v)", "r = Dropout(x)", "r = LeakyReLU(x){act_type=rrelu}",
                           "r = SoftmaxOutput(x l)"}) {
    EXPECT_THAT(refusal(std::string(node) + "\nreturn r", data, training), HasSubstr("node")) << node;
    EXPECT_TRUE(translated(std::string(node) + "\nreturn r", data).ok()) << node;
  }
  for (const char* node : {"r = BatchNorm(x g b m v){use_global_stats=True}", "r = Dropout(x){p=0}"})
    EXPECT_TRUE(translated(std::string(node) + "\nreturn r", data, training).ok()) << node;
}

TEST(Translate, EveryRowIsComplete) {
  for (const Row* row : all_rows()) {
    EXPECT_NE(row->body, nullptr) << row->names;
    const auto [least, most] = operand_range(*row);
    EXPECT_LE(least, most) << row->names;
    for (const AttrColumn& column : columns_of(*row)) {
      if (!column.fallback || (column.none && *column.fallback == "None")) continue;
      SymbolNode node;
      node.set_attr(std::string(column.name), std::string(*column.fallback));
      const std::vector<AttrColumn> one = {column};
      EXPECT_TRUE(Attrs::read(one, node).ok()) << row->names << " " << column.name;
    }
  }
}

}  // namespace
}  // namespace tenon::mxnet
