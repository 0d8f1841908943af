// Shape and type rules: what they refuse, and with which message. Every message names the node and its operands with their types.
// Constants that conflict are invalid; symbols that cannot be shown to agree are unsupported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/builder.h"
#include "src/ir/text.h"
#include "src/ops/eval/eval.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"

namespace tenon {
namespace {

using testing::HasSubstr;

struct Refusal {
  const char* inputs;  // "x: f32[2,3], y: f32[4]"
  const char* node;    // "add(%x, %y)"
  std::vector<const char*> says;
};

std::string graph_text(const Refusal& r) {
  std::string text = "graph @g(%";
  for (const char* c = r.inputs; *c; ++c) text += *c == ' ' && c[-1] == ',' ? " %" : std::string(1, *c);
  return text + ") {\n  %node = " + r.node + "\n  return %node\n}\n";
}

// The parser reports the line and column and then the rule's sentence, nothing else.
void expect_refused(const Refusal& r) {
  SCOPED_TRACE(r.node);
  const auto graph = parse_graph(graph_text(r));
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.status().message(), HasSubstr("%node = "));
  for (const char* words : r.says) EXPECT_THAT(graph.status().message(), HasSubstr(words));
}

TEST(Rules, NameTheNodeAndWhatConflicts) {
  const char* conv = "convolution(%x, %w){strides=[1], padding=[0], padding_high=[0], dilations=[1]}";
  const char* by_weight =
      "convolution_weight_gradient(%x, %d){kernel=[3], strides=[1], padding=[0], padding_high=[0], "
      "dilations=[1], groups=2}";
  const Refusal cases[] = {
      {"x: f32[2,3], y: f32[4]",
       "add(%x, %y)",
       {"%x: f32[2,3]", "%y: f32[4]", "[2,3] and [4] do not broadcast"}},
      {"x: f32[2,3], y: i32[2,3]", "add(%x, %y)", {"differ in dtype, f32 and i32", "cast"}},
      {"x: bool[2]", "neg(%x)", {"number dtype, not bool"}},
      {"x: i32[2]", "exp(%x)", {"float dtype, not i32"}},
      {"x: f8e5m2[2]", "exp(%x)", {"f8e5m2 is not computed with; write a cast"}},
      {"x: f8e4m3fn[2]", "eq(%x, %x)", {"f8e4m3fn is not computed with"}},
      {"x: f8e4m3fn[2,2]", "matmul(%x, %x)", {"f8e4m3fn is not computed with"}},
      {"x: f8e4m3fn[2]", "layer_norm(%x){axes_count=1, eps=1e-5}", {"f8e4m3fn is not computed with"}},
      {"x: f8e4m3fn[2], i: i64[2]",
       "scatter(%x, %i, %x){axis=0, mode=\"add\"}",
       {"f8e4m3fn is not computed with"}},
      {"x: f32[2]", "bit_not(%x)", {"integer dtype or bool, not f32"}},
      {"c: f32[2], x: f32[2]", "where(%c, %x, %x)", {"operand 0 must be bool, not f32"}},
      {"x: f32[2]", "bitcast(%x){dtype=i64}", {"the bits of f32 are no i64"}},
      {"x: f32[2,3]", "sum(%x){axes=[2]}", {"axis 2 is out of range for rank 2"}},
      {"x: f32[2,3]", "sum(%x){axes=[0,-2]}", {"listed twice"}},
      {"x: i64[2,3]", "mean(%x){axes=[0]}", {"float dtype, not i64"}},
      {"x: f32[2,0]", "argmax(%x){axis=1}", {"no element to choose along axis 1"}},
      {"x: f32[2,3]", "softmax(%x){axis=-3}", {"axis -3 is out of range for rank 2"}},
      {"x: f32[2,3]",
       "reshape(%x){shape=[4,2]}",
       {"[2,3] does not reshape to [4,2]", "6 elements against 8"}},
      {"x: f32[2,3]", "reshape(%x){shape=[4,-1]}", {"6 elements are no multiple of 4"}},
      {"x: f32[2,3]", "reshape(%x){shape=[-1,-1]}", {"more than one -1"}},
      {"x: f32[0,3]", "reshape(%x){shape=[0,-1]}", {"-1 beside a size of 0"}},
      {"x: f32[2,3]", "reshape(%x){shape=[-2,-3]}", {"at least 0"}},
      {"x: f32[2,3]", "transpose(%x){perm=[0,0]}", {"perm [0,0] is no permutation of 2 axes"}},
      {"x: f32[2,3]", "transpose(%x){perm=[0]}", {"no permutation"}},
      {"x: f32[2,3]", "expand(%x){shape=[2,4]}", {"[2,3] does not expand to [2,4]", "3 and 4 differ"}},
      {"x: f32[2,3]", "expand(%x){shape=[3]}", {"does not expand"}},
      {"x: f32[7]", "slice(%x){axis=0, start=2, end=9}", {"bounds 2 to 9 do not lie within size 7"}},
      {"x: f32[7]", "slice(%x){axis=0, start=3, end=2}", {"do not lie within"}},
      {"x: f32[7]", "slice(%x){axis=0, start=-1, end=2}", {"do not lie within"}},
      {"x: f32[7]", "slice(%x){axis=0, end=7, step=0}", {"step must be at least 1, not 0"}},
      {"x: f32[N]", "slice(%x){axis=0, end=N+1}", {"bounds 0 to N+1 do not lie within size N"}},
      {"x: f32[4]",
       "windows(%x){axes=[0], sizes=[5], strides=[1], dilations=[1]}",
       {"a window of 5", "larger than the 4"}},
      {"x: f32[4]",
       "windows(%x){axes=[0], sizes=[2], strides=[0], dilations=[1]}",
       {"strides [0] must be at least 1"}},
      {"x: f32[4]", "windows(%x){axes=[0], sizes=[2], strides=[], dilations=[1]}", {"differ in length"}},
      {"x: f32[2,3], y: f32[3,3]",
       "concat(%x, %y){axis=1}",
       {"[2,3] and [3,3] off axis 1", "2 and 3 differ"}},
      {"x: f32[2,3], y: f32[2]", "concat(%x, %y){axis=1}", {"ranks differ"}},
      {"x: f32[2,3]", "pad(%x){low=[1], high=[1]}", {"one amount for each of 2 axes"}},
      {"x: f32[2]", "pad(%x){low=[-2], high=[-1]}", {"at least 0"}},
      {"x: f32[5,3], i: f32[2]", "gather(%x, %i){axis=0}", {"indices must be i64 or i32, not f32"}},
      {"x: f32[0,3], i: i64[2]", "gather(%x, %i){axis=0}", {"no element to take"}},
      {"x: f32[0,3], i: i64[2,3]", "take_along(%x, %i){axis=0}", {"no element to take"}},
      {"x: f32[0,3], i: i64[2,3], u: f32[2,3]", "scatter(%x, %i, %u){axis=0}", {"no element to take"}},
      {"x: f32[5,3], i: i64[2,4]", "take_along(%x, %i){axis=0}", {"off axis 0", "3 and 4 differ"}},
      {"x: f32[5,3], i: i64[2,4], u: f32[2,4]", "scatter(%x, %i, %u){axis=0}", {"off axis 0"}},
      {"x: f32[5,3], i: i64[2,3], u: f32[2,2]",
       "scatter(%x, %i, %u){axis=0}",
       {"indices [2,3] and updates [2,2]"}},
      {"x: f32[5,3], i: i64[2,3], u: f32[2,3]",
       "scatter(%x, %i, %u){axis=0, mode=\"sub\"}",
       {"none of set, add, mul, max and min: sub"}},
      {"x: f32[5,3], i: i64[2], u: f32[3,2]",
       "index_put(%x, %i, %u){axis=0}",
       {"updates [3,2] where [2,3] is needed"}},
      {"x: f32[2,3], y: f32[4,5]", "matmul(%x, %y)", {"[2,3] and [4,5]", "inner sizes", "3 and 4 differ"}},
      {"x: f32[], y: f32[4,5]", "matmul(%x, %y)", {"a scalar operand"}},
      {"x: f32[2,1,3], y: f32[3,3,5]", "matmul(%x, %y)", {"batch axes do not broadcast"}},
      {"x: f32[2,3], w: f32[4,5]", "linear(%x, %w)", {"inner sizes", "3 and 5 differ"}},
      {"x: f32[2,3], w: f32[4,3], b: f32[3]", "linear(%x, %w, %b)", {"operand 2 [3] where [4] is needed"}},
      {"x: f32[1,3,8], w: f32[4,2,3]", conv, {"[1,3,8] and [4,2,3]", "channels: 3 and 2 differ"}},
      {"x: f32[1,3,8], w: f32[4,3,9]", conv, {"a window of 9"}},
      {"x: f32[1,3,8,8], w: f32[4,3,3]", conv, {"the weight needs rank 4"}},
      {"x: f32[3,8], w: f32[4,3]", conv, {"1 to 3 spatial axes"}},
      {"x: f32[1,4,8], w: f32[3,2,3]",
       "convolution(%x, %w){strides=[1], padding=[0], padding_high=[0], dilations=[1], groups=2}",
       {"3 channels do not fall into 2 groups"}},
      {"x: f32[1,4,8], w: f32[3,4,3]",
       "convolution(%x, %w){strides=[1,1], padding=[0], padding_high=[0], dilations=[1]}",
       {"strides [1,1] needs one entry for each of 1 spatial axes"}},
      {"x: f32[1,4,8], w: f32[3,4,3]",
       "convolution(%x, %w){strides=[1], padding=[0], padding_high=[0], dilations=[1], groups=0}",
       {"groups must be at least 1"}},
      {"x: f32[1,4,8], w: f32[4,3,3]",
       "convolution(%x, %w){strides=[1], padding=[0], padding_high=[0], dilations=[1], transposed=true, "
       "output_padding=[1]}",
       {"output_padding must be smaller"}},
      {"x: f32[2,4,8], d: f32[2,6,7]", by_weight, {"positions of the window: 7 and 6 differ"}},
      {"x: f32[2,4,8], d: f32[3,6,6]", by_weight, {"batch: 2 and 3 differ"}},
      {"x: f32[2,4,8], d: f32[2,5,6]", by_weight, {"5 channels do not fall into 2 groups"}},
      {"x: f32[2,3,8], d: f32[2,6,6]", by_weight, {"3 channels do not fall into 2 groups"}},
      {"x: f32[2,4,8], d: f32[2,6,6,1]", by_weight, {"the operands need the same rank"}},
      {"x: f32[2,4,8,8], d: f32[2,6,6,6]",
       by_weight,
       {"kernel [3] needs one entry for each of 2 spatial axes"}},
      {"x: f32[1,4,8]",
       "max_pool(%x){kernel=[0], strides=[1], padding=[0], padding_high=[0]}",
       {"kernel [0]"}},
      {"x: f32[1,4,8]",
       "max_pool(%x){kernel=[2], strides=[1], padding=[0], padding_high=[0], layout=\"nhwc\"}",
       {"neither channels_first nor channels_last: nhwc"}},
      {"x: f32[1,4,8]", "adaptive_avg_pool(%x){output=[0]}", {"output [0] must be at least 1"}},
      {"x: f32[2,5], w: f32[4]",
       "layer_norm(%x, %w){axes_count=1, eps=1e-05}",
       {"operand 1 [4] where [5] is needed"}},
      {"x: f32[2,5]", "layer_norm(%x){axes_count=3, eps=1e-05}", {"axes_count 3 is out of range for rank 2"}},
      {"x: f32[2,5]", "layer_norm(%x){axes_count=0, eps=1e-05}", {"axes_count 0 is out of range"}},
      {"x: f32[2,5], w: f16[5]", "layer_norm(%x, %w){axes_count=1, eps=1e-05}", {"f32 and f16"}},
      {"x: f32[2,5,3]", "group_norm(%x){groups=2, eps=1e-05}", {"5 channels do not fall into 2 groups"}},
      {"x: f32[2,5]", "instance_norm(%x){eps=1e-05}", {"at least one spatial axis"}},
      {"x: f32[2,5,3], m: f32[3]",
       "batch_norm(%x, %m, %m){eps=1e-05}",
       {"operand 1 [3] where [5] is needed"}},
      {"x: f32[2]", "gelu(%x){approximate=\"erf\"}", {"neither none nor tanh: erf"}},
      {"q: f32[1,3,4,8], k: f32[1,2,5,8]",
       "attention(%q, %k, %k){scale=1.0}",
       {"heads of q, 3, are no multiple of the heads of k, 2"}},
      {"q: f32[1,2,4,8], k: f32[1,2,5,6]",
       "attention(%q, %k, %k){scale=1.0}",
       {"head size of q and k: 8 and 6 differ"}},
      {"q: f32[1,2,4,8], m: f32[2,1,4,4]",
       "attention(%q, %q, %q, %m){scale=1.0}",
       {"mask [2,1,4,4] against scores [1,2,4,4]"}},
      {"q: f32[1,4,2,8], k: f32[1,5,3,8]",
       "attention(%q, %k, %k){scale=1.0, layout=\"heads_last\"}",
       {"heads of q, 2, are no multiple of the heads of k, 3"}},
      {"q: f32[1,4,2,8], y: f32[1,3,2,8]",
       "attention_gradient(%q, %q, %q, %y){scale=1.0}",
       {"length of the result: 3 and 4 differ"}},
      {"q: f32[1,4,2,8], y: f32[1,4,2,6]",
       "attention_gradient(%q, %q, %q, %y){scale=1.0}",
       {"head size of the result: 6 and 8 differ"}},
      {"q: f32[1,4,2,8], y: f32[4,2,8]",
       "attention_gradient(%q, %q, %q, %y){scale=1.0}",
       {"the gradient of the result needs rank 4"}},
      {"q: f32[1,4,2,8], m: f32[2,1,4,4]",
       "attention_gradient(%q, %q, %q, %q, %m){scale=1.0}",
       {"mask [2,1,4,4] against scores [1,2,4,4]"}},
      {"q: f32[1,2,4,8], m: bool[1,2,4,3]",
       "attention(%q, %q, %q, %m){scale=1.0, dropout=0.5}",
       {"size 3 of the weights that dropout keeps: 3 and 4 differ"}},
      {"q: f32[1,2,4,8], m: bool[4,4]",
       "attention(%q, %q, %q, %m){scale=1.0, dropout=0.5}",
       {"the weights that dropout keeps need rank 4"}},
      {"q: f32[1,2,4,8], m: f32[1,2,4,4]",
       "attention(%q, %q, %q, %m){scale=1.0, dropout=0.5}",
       {"the weights that dropout keeps are bool, not f32"}},
      {"q: f32[1,2,4,8]",
       "attention(%q, %q, %q){scale=1.0, dropout=0.5}",
       {"dropout needs the operand that says which weights are kept"}},
      {"q: f32[1,2,4,8], m: bool[1,2,4,4]",
       "attention(%q, %q, %q, %m){scale=1.0, dropout=1.0}",
       {"outside [0,1)"}},
      {"q: f32[1,2,4,8], m: f32[1,2,4,4]",
       "attention(%q, %q, %q, %m, %m){scale=1.0}",
       {"without dropout, the mask is the last operand"}},
      {"q: f32[1,4,2,8], m: bool[1,2,4,4]",
       "attention_gradient(%q, %q, %q, %q, %m){scale=1.0, dropout=-0.5}",
       {"outside [0,1)"}},
      {"q: f32[1,2,4,8]",
       "attention(%q, %q, %q){scale=1.0, layout=\"heads\"}",
       {"layout is neither heads_first nor heads_last: heads"}},
  };
  for (const Refusal& r : cases) expect_refused(r);
}

Status status_of(OpId row, std::vector<std::vector<Dim>> shapes, std::vector<NamedAttr> attrs, Graph& graph) {
  Builder b(graph);
  std::vector<ValueId> operands;
  for (const auto& shape : shapes) operands.push_back(*b.try_input({}, {DType::f32, shape}));
  return b.try_add(row, operands, std::move(attrs)).status();
}

TEST(Rules, SymbolsThatCannotBeShownToAgreeAreUnsupported) {
  Graph graph;
  const Dim n = graph.dims->symbol("N"), m = graph.dims->symbol("M");
  EXPECT_EQ(status_of(ops::add, {{n}, {m}}, {}, graph).code(), Code::unsupported);
  EXPECT_EQ(status_of(ops::add, {{n}, {Dim(4)}}, {}, graph).code(), Code::unsupported);
  EXPECT_EQ(status_of(ops::add, {{n}, {Dim(1)}}, {}, graph).code(), Code::ok);
  EXPECT_EQ(status_of(ops::matmul, {{n, m}, {n, m}}, {}, graph).code(), Code::unsupported);
  EXPECT_EQ(status_of(ops::concat, {{n, m}, {m, m}}, {{"axis", Dim(1)}}, graph).code(), Code::unsupported);
  EXPECT_EQ(status_of(ops::group_norm, {{n, m}}, {{"groups", Dim(2)}, {"eps", 1e-5}}, graph).code(),
            Code::unsupported);
  const std::vector<NamedAttr> grouped = {{"strides", Dims{1}},
                                          {"padding", Dims{0}},
                                          {"padding_high", Dims{0}},
                                          {"dilations", Dims{1}},
                                          {"groups", Dim(2)}};
  EXPECT_EQ(status_of(ops::convolution, {{n, Dim(4), m}, {m, Dim(2), Dim(3)}}, grouped, graph).code(),
            Code::unsupported);
  EXPECT_EQ(status_of(ops::sum, {{n, m}}, {{"axes", Dims{n}}}, graph).code(), Code::invalid);
}

// Graphs that are accepted with symbols and refused at sizes that violate a condition.
TEST(Rules, ConditionsLeftOpenAreCheckedAtTheSizes) {
  struct {
    const char* text;
    std::vector<int64_t> good, bad;  // values of N, M
    const char* says;
  } cases[] = {
      {"graph @g(%x: f32[N], %m: f32[M]) {\n  %y = slice(%x){axis=0, end=M}\n  return %y, %m\n}\n",
       {4, 3},
       {3, 4},
       "do not lie within size 3"},
      {"graph @g(%x: f32[N], %m: f32[M]) {\n  %y = reshape(%x){shape=[M,2]}\n  return %y, %m\n}\n",
       {6, 3},
       {7, 3},
       "7 elements against 6"},
      {"graph @g(%x: f32[N], %m: f32[M]) {\n  %y = reshape(%x){shape=[-1,M]}\n  return %y, %m\n}\n",
       {6, 3},
       {7, 3},
       "7 elements are no multiple of 3"},
      {"graph @g(%x: f32[N], %m: f32[M]) {\n  %y = windows(%x){axes=[0], sizes=[M], strides=[1], "
       "dilations=[1]}\n  return %y, %m\n}\n",
       {4, 4},
       {3, 4},
       "larger than the 3"},
      {"graph @g(%x: f32[N], %m: f32[M]) {\n  %y = pad(%x){low=[0], high=[-M]}\n  return %y, %m\n}\n",
       {4, 4},
       {3, 4},
       "at least 0"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const auto graph = parse_graph(c.text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_TRUE(at_sizes(*graph, c.good).ok()) << at_sizes(*graph, c.good).status().message();
    const auto broken = at_sizes(*graph, c.bad);
    ASSERT_FALSE(broken.ok());
    EXPECT_EQ(broken.status().code(), Code::invalid);
    EXPECT_THAT(broken.status().message(), HasSubstr(c.says));
    EXPECT_THAT(broken.status().message(), HasSubstr("%y"));
  }
}

TEST(Rules, AScalarCountsAsAVectorOfOne) {
  EXPECT_EQ(normal_axis(0, 0), 0);
  EXPECT_EQ(normal_axis(-1, 0), 0);
  EXPECT_EQ(normal_axis(1, 0), std::nullopt);
  EXPECT_EQ(normal_axis(-3, 3), 0);
  EXPECT_EQ(normal_axis(3, 3), std::nullopt);
  EXPECT_EQ(normal_axis(INT64_MIN, 3), std::nullopt);
}

}  // namespace
}  // namespace tenon
