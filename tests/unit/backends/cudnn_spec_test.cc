// Specs and problems of cuDNN for convolutions: which operands it reads in place, how a convolution is rewritten before groups form,
// and the problem at concrete sizes.
#include "backends/nvidia/cudnn/convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/ir/text.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon::cudnn {
namespace {

using testing::HasSubstr;
using testing::Not;

Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  return *graph;
}

std::optional<Dims> bound(const Graph& g, ValueId v) {
  if (op(g.node(v).op).view || is_literal(g, v)) return std::nullopt;
  for (const OutputBinding& out : g.outputs)
    if (out.value == v && out.strides) return out.strides;
  return stored_strides(g, v);
}

ValueId convolution_of(const Graph& g) {
  for (ValueId v = 0; v < g.nodes.size(); ++v)
    if (g.node(v).op == ops::convolution) return v;
  TENON_CHECK(false, "no convolution");
}

Result<ConvolutionSpec> spec_of(const Graph& g) {
  return make_spec(g, convolution_of(g), [&](ValueId v) { return bound(g, v); });
}
std::string why_not(const std::string& text) {
  const Graph g = parsed(text);
  const auto spec = spec_of(g);
  return spec.ok() ? "" : spec.status().message();
}
struct Sized : PlacedProblem {
  ConvolutionProblem problem;
};
Sized sized(const std::string& text, std::vector<int64_t> symbols = {}) {
  const Graph g = parsed(text);
  auto spec = spec_of(g);
  TENON_CHECK(spec.ok(), spec.status().message());
  Sized at{at_sizes(*spec, Sizes{g.dims.get(), std::move(symbols)}), {}};
  at.problem = dynamic_cast<const ConvolutionProblem&>(*at.PlacedProblem::problem);
  return at;
}
bool reads(const std::string& text, int operand) {
  const Graph g = parsed(text);
  return reads_in_place(g, g.node(convolution_of(g)), operand, [&](ValueId v) { return bound(g, v); });
}
std::string arranged(const std::string& text) {
  return print(rewrite(parsed(text), [](Builder& b, Node&& node, ValueId) {
    if (node.op != ops::convolution) return b.add(std::move(node));
    return legalize(b, std::move(node), [&](ValueId v) { return bound(b.graph(), v); });
  }));
}

// The text of "y = convolution(x, w)" with these inputs and attributes.
std::string one(const std::string& inputs, const std::string& attributes,
                const std::string& operands = "%x, %w", const std::string& result = "%y") {
  return "graph @f(" + inputs + ") {\n %y = convolution(" + operands + "){" + attributes + "}\n return " +
         result + "\n}";
}
const std::string k2d = "strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1]";
const std::string kLast2d = k2d + ", layout=\"channels_last\"";

TEST(CudnnSpec, ChannelsFirst) {
  const Sized w = sized(one("%x: f32[N,4,9,7], %w: f32[6,2,3,3]",
                            "strides=[2,1], padding=[1,0], padding_high=[0,2], dilations=[1,2], groups=2"),
                        {5});
  const ConvolutionProblem& p = w.problem;
  EXPECT_EQ(p.x, (std::vector<int64_t>{5, 4, 9, 7}));
  EXPECT_EQ(p.w, (std::vector<int64_t>{6, 2, 3, 3}));
  EXPECT_EQ(p.y, (std::vector<int64_t>{5, 6, 4, 5}));
  EXPECT_EQ(library::plain_strides(p.x, p.channels_last), (std::vector<int64_t>{252, 63, 7, 1}));
  EXPECT_EQ(w.tensors.back().bytes(), 5 * 6 * 4 * 5 * 4);
  EXPECT_EQ(p.text(),
            "5x4x9x7 by 6x2x3x3 f32, channels first groups 2 stride 2x1 dilation 1x2 pad 1x0 to 0x2");
}

TEST(CudnnSpec, ChannelsLast) {
  const Sized w = sized(one("%x: bf16[2,9,7,4], %w: bf16[6,4,1,1]", kLast2d));
  const ConvolutionProblem& p = w.problem;
  EXPECT_EQ(p.x, (std::vector<int64_t>{2, 4, 9, 7}));
  EXPECT_EQ(p.y, (std::vector<int64_t>{2, 6, 9, 7}));
  EXPECT_EQ(library::plain_strides(p.x, p.channels_last), (std::vector<int64_t>{252, 1, 28, 4}));
  EXPECT_EQ(library::plain_strides(p.w, p.channels_last), (std::vector<int64_t>{4, 1, 4, 4}));
  EXPECT_EQ(p.text(), "2x4x9x7 by 6x4x1x1 bf16");
}

TEST(CudnnSpec, OneAndThreeAxes) {
  const Sized line = sized(
      one("%x: f32[2,4,9], %w: f32[6,4,3]", "strides=[2], padding=[1], padding_high=[1], dilations=[1]"));
  EXPECT_EQ(line.problem.text(), "2x4x1x9 by 6x4x1x3 f32, channels first stride 1x2 pad 0x1");
  EXPECT_EQ(line.problem.y, (std::vector<int64_t>{2, 6, 1, 5}));
  const Sized space = sized(one("%x: f16[2,5,6,7,4], %w: f16[6,4,1,1,1]",
                                "strides=[1,2,1], padding=[0,0,0], padding_high=[0,0,0], dilations=[1,1,1], "
                                "layout=\"channels_last\""));
  EXPECT_EQ(space.problem.text(), "2x4x5x6x7 by 6x4x1x1x1 f16, stride 1x2x1");
}

TEST(CudnnSpec, Transposed) {
  const std::string sizes = "%x: f32[2,6,4,5], %w: f32[6,4,3,3]";
  const Sized w = sized(one(sizes,
                            "strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1], "
                            "transposed=true, output_padding=[1,0]"));
  EXPECT_EQ(w.problem.y, (std::vector<int64_t>{2, 4, 8, 9}));
  EXPECT_EQ(w.problem.text(), "2x6x4x5 by 6x4x3x3 f32, transposed channels first stride 2x2 pad 1x1");
  // An output_padding of a stride or more reduces the padding at the end.
  const Sized far = sized(one(sizes,
                              "strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[2,2], "
                              "transposed=true, output_padding=[1,0]"));
  EXPECT_EQ(far.problem.high, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(why_not(one(sizes,
                        "strides=[1,1], padding=[1,1], padding_high=[0,1], dilations=[2,2], "
                        "transposed=true, output_padding=[1,0]")),
            "cuDNN knows no output_padding of a stride and more");
}

TEST(CudnnSpec, WhatIsReadInPlace) {
  EXPECT_TRUE(reads(one("%x: f32[2,4,9,7], %w: f32[6,4,3,3]", k2d), 0));
  EXPECT_TRUE(reads(one("%x: f32[2,4,9,7], %w: f32[6,4,3,3]", k2d), 1));
  EXPECT_FALSE(reads(one("%x: f32[2,4,9,7] strides=[252,1,28,4], %w: f32[6,4,3,3]", k2d), 0));
  EXPECT_TRUE(reads(one("%x: f32[2,9,7,4], %w: f32[6,4,3,3]", kLast2d), 0));
  EXPECT_FALSE(reads(one("%x: f32[2,9,7,4], %w: f32[6,4,3,3]", kLast2d), 1));
  EXPECT_TRUE(reads(one("%x: f32[2,9,7,4], %w: f32[6,4,3,3] strides=[36,1,12,4]", kLast2d), 1));
  // Both orders are the same memory: kernels of one element, or one channel per group.
  EXPECT_TRUE(reads(one("%x: f32[2,9,7,4], %w: f32[6,4,1,1]", kLast2d), 1));
  EXPECT_TRUE(reads(one("%x: f32[2,9,7,4], %w: f32[8,1,3,3]", kLast2d + ", groups=4"), 1));
  // Views: a part of the batch, and every other row.
  EXPECT_TRUE(
      reads("graph @f(%a: f32[5,9,7,4], %w: f32[6,4,1,1]) {\n %x = slice(%a){axis=0, start=1, end=3}\n %y = "
            "convolution(%x, %w){" +
                kLast2d + "}\n return %y\n}",
            0));
  EXPECT_FALSE(
      reads("graph @f(%a: f32[2,18,7,4], %w: f32[6,4,1,1]) {\n %x = slice(%a){axis=1, end=18, step=2}\n %y "
            "= convolution(%x, %w){" +
                kLast2d + "}\n return %y\n}",
            0));
}

TEST(CudnnSpec, PartsOfABatchAreReadWithAnOffset) {
  const Sized w = sized(
      "graph @f(%a: f32[5,9,7,4], %w: f32[6,4,1,1]) {\n %x = slice(%a){axis=0, start=1, end=3}\n "
      "%y = convolution(%x, %w){" +
      kLast2d + "}\n return %y\n}");
  EXPECT_EQ(w.tensors[0].offset, 252 * 4);
  EXPECT_EQ(w.problem.x[0], 2);
}

TEST(CudnnSpec, Arranged) {
  // Weights are copied to the library's order, and the bias is added behind the convolution.
  const std::string both =
      arranged(one("%x: f32[2,9,7,4], %w: f32[6,4,3,3], %b: f32[6]", kLast2d, "%x, %w, %b"));
  EXPECT_THAT(both, HasSubstr("transpose(%w){perm=[0,2,3,1]} : f32[6,3,3,4]"));
  EXPECT_THAT(both, HasSubstr("{dtype=f32} : f32[6,3,3,4]"));
  EXPECT_THAT(both, HasSubstr("{perm=[0,3,1,2]} : f32[6,4,3,3]"));
  EXPECT_THAT(both, HasSubstr("%y = add("));
  // A convolution that needs no change stays as it is.
  const std::string plain = arranged(one("%x: f32[2,9,7,4], %w: f32[6,4,1,1]", kLast2d));
  EXPECT_THAT(plain, HasSubstr("%y = convolution(%x, %w)"));
  EXPECT_THAT(plain, Not(HasSubstr("cast")));
  const std::string first =
      arranged(one("%x: f32[2,4,9,7], %w: f32[6,4,3,3], %b: f32[6]", k2d, "%x, %w, %b"));
  EXPECT_THAT(first, HasSubstr("reshape(%b){shape=[1,6,1,1]}"));
  EXPECT_THAT(first, Not(HasSubstr("cast")));
  // An input with other strides is copied.
  EXPECT_THAT(arranged(one("%x: f32[2,4,9,7] strides=[252,1,28,4], %w: f32[6,4,3,3]", k2d)),
              HasSubstr("cast(%x)"));
}

TEST(CudnnSpec, ResultsWithStrides) {
  EXPECT_EQ(why_not(one("%x: f32[2,9,7,4], %w: f32[6,4,1,1]", kLast2d, "%x, %w", "%y strides=[378,1,54,9]")),
            "cuDNN cannot write its result with these strides");
  EXPECT_EQ(why_not(one("%x: f32[2,9,7,4], %w: f32[6,4,1,1]", kLast2d, "%x, %w", "%y strides=[378,42,6,1]")),
            "");
}

// TF32 applies only to f32; rewriting a convolution keeps the attribute.
TEST(CudnnSpec, Tf32) {
  const std::string tf32 = kLast2d + ", tf32=true";
  EXPECT_EQ(sized(one("%x: f32[2,9,7,4], %w: f32[6,4,1,1]", tf32)).problem.text(),
            "2x4x9x7 by 6x4x1x1 f32 tf32");
  EXPECT_EQ(sized(one("%x: bf16[2,9,7,4], %w: bf16[6,4,1,1]", tf32)).problem.text(),
            "2x4x9x7 by 6x4x1x1 bf16");
  EXPECT_THAT(arranged(one("%x: f32[2,9,7,4], %w: f32[6,4,3,3], %b: f32[6]", tf32, "%x, %w, %b")),
              HasSubstr("layout=\"channels_last\", tf32=true} : f32[2,7,5,6]"));
}

TEST(CudnnSpec, NothingToDo) {
  const std::string text = one("%x: f32[N,S,7,C], %w: f32[O,C,1,1]",
                               "strides=[1,1], padding=[1,0], padding_high=[1,0], dilations=[1,1], "
                               "layout=\"channels_last\"");
  EXPECT_TRUE(sized(text, {0, 9, 4, 6}).empty);
  EXPECT_TRUE(sized(text, {2, 9, 4, 0}).empty);
  const Sized no_channels = sized(text, {2, 9, 0, 6}), padding_alone = sized(text, {2, 0, 4, 6});
  EXPECT_TRUE(no_channels.zeros && !no_channels.empty);
  EXPECT_EQ(no_channels.tensors.back().bytes(), 2 * 11 * 7 * 6 * 4);
  EXPECT_TRUE(padding_alone.zeros && !padding_alone.empty);
  EXPECT_FALSE(sized(text, {2, 9, 4, 6}).zeros);
}

TEST(CudnnSpec, KeysTellProblemsApart) {
  const std::string sizes = "%x: f32[N,4,9,7], %w: f32[6,4,3,3]";
  const std::string key = sized(one(sizes, k2d), {2}).problem.key();
  EXPECT_EQ(key, sized(one(sizes, k2d), {2}).problem.key());
  EXPECT_NE(key, sized(one(sizes, k2d), {3}).problem.key());
  EXPECT_NE(key, sized(one("%x: f16[N,4,9,7], %w: f16[6,4,3,3]", k2d), {2}).problem.key());
  for (const char* other : {"strides=[1,2], padding=[0,0], padding_high=[0,0], dilations=[1,1]",
                            "strides=[1,1], padding=[0,1], padding_high=[0,0], dilations=[1,1]",
                            "strides=[1,1], padding=[0,0], padding_high=[0,1], dilations=[1,1]",
                            "strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,2]"})
    EXPECT_NE(key, sized(one(sizes, other), {2}).problem.key()) << other;
  EXPECT_NE(key, sized(one(sizes, k2d + ", tf32=true"), {2}).problem.key());
  const std::string square = "%x: f32[2,6,6,6], %w: f32[6,6,1,1]";
  EXPECT_NE(sized(one(square, k2d)).problem.key(), sized(one(square, kLast2d)).problem.key());
  EXPECT_NE(sized(one(square, k2d)).problem.key(),
            sized(one(square, k2d + ", transposed=true")).problem.key());
}

}  // namespace
}  // namespace tenon::cudnn
