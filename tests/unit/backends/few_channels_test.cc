// Convolutions of few channels that the library does not compute by itself: transposed ones, which become products, and those that run
// in loops, as products to few columns do. Compares convolutions with the evaluator.
#include "backends/onednn/few_channels.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/support/run_help.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Case {
  std::string x, w;  // shapes
  std::string attrs;
  std::string bias = "";                           // its shape
  std::vector<std::vector<int64_t>> sizes = {{}};  // of the symbols of x, one run each
};

// The attributes, with dilations of 1 if there are none.
std::string whole(const std::string& attrs) {
  if (attrs.find("dilations") != std::string::npos) return attrs;
  const auto axes = 1 + std::count(attrs.begin(), attrs.begin() + static_cast<long>(attrs.find(']')), ',');
  std::string ones = "1";
  for (long i = 1; i < axes; ++i) ones += ",1";
  return attrs + ", dilations=[" + ones + "]";
}

// Runs the case and returns the text of explain().
std::string check(const Case& c) {
  const bool biased = !c.bias.empty();
  const std::string text = "graph @f(%x: f32[" + c.x + "], %w: f32[" + c.w + "]" +
                           (biased ? ", %b: f32[" + c.bias + "]" : "") + ") {\n  %y = convolution(%x, %w" +
                           (biased ? ", %b" : "") + "){" + whole(c.attrs) + "}\n  return %y\n}\n";
  SCOPED_TRACE(text);
  const auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return "";
  const auto program = Program::make(*graph, {}, {});
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok()) return "";
  for (const auto& symbols : c.sizes) {
    std::vector<HostTensor> inputs;
    for (const InputBinding& input : graph->inputs) {
      std::vector<int64_t> shape;
      for (const Dim d : graph->type(input.value).shape) shape.push_back(*graph->dims->eval(d, symbols));
      inputs.push_back(random_tensor(DType::f32, shape, static_cast<uint32_t>(inputs.size()) + 1));
    }
    const auto expected = evaluate(*graph, inputs);
    EXPECT_TRUE(expected.ok()) << expected.status().message();
    std::vector<HostTensor> results = blank_like(*expected);
    const Status status = run(**program, inputs, results);
    EXPECT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < results[0].count(); ++i)
      EXPECT_NEAR(results[0].number(i), (*expected)[0].number(i),
                  1e-5 * (4 + std::abs((*expected)[0].number(i))))
          << "element " << i;
  }
  EXPECT_EQ((*program)->stats().reference_steps, 0);
  return (*program)->explain(false);
}

std::string transposed(const std::string& strides, const std::string& padding,
                       const std::string& padding_high, const std::string& output_padding,
                       const std::string& more = "") {
  return "strides=[" + strides + "], padding=[" + padding + "], padding_high=[" + padding_high +
         "], transposed=true, output_padding=[" + output_padding + "]" + more;
}

TEST(FewChannels, TransposedConvolutionsAreProducts) {
  const Case cases[] = {
      {"1,7,20", "7,1,32", transposed("8", "0", "0", "0")},
      {"2,7,20", "7,1,32", transposed("8", "5", "3", "0")},
      {"3,7,20", "7,2,30", transposed("8", "1", "1", "3"), "2"},
      {"2,5,6,7", "5,3,4,4", transposed("4,4", "0,0", "0,0", "0,0")},
      {"2,5,6,7", "5,3,4,4", transposed("2,2", "1,1", "1,1", "0,0"), "3"},
      {"2,5,6,7", "5,8,3,5", transposed("2,3", "0,2", "1,0", "1,2"), "8"},
      {"1,5,6,1", "5,1,4,4", transposed("2,4", "0,0", "0,0", "1,3")},
      {"1,5,1,7", "5,2,3,3", transposed("5,5", "0,0", "0,0", "4,1")},
      {"2,3,2,3,4", "3,2,2,2,2", transposed("2,2,2", "0,0,0", "0,0,0", "0,0,0"), "2"},
      {"1,3,2,3,4", "3,2,3,3,3", transposed("2,2,2", "1,0,1", "1,1,0", "1,0,1")},
      {"2,6,7,5", "5,3,4,4", transposed("2,2", "1,1", "1,1", "0,0", ", layout=\"channels_last\""), "3"},
      {"2,20,7", "7,1,30", transposed("8", "1", "2", "5", ", layout=\"channels_last\"")},
      {"N,7,L", "7,1,32", transposed("8", "5", "3", "0"), "", {{2, 20}, {1, 1}, {3, 0}, {0, 5}}},
      {"N,5,H,W", "5,3,4,4", transposed("2,2", "1,1", "1,1", "1,1"), "3", {{2, 6, 7}, {0, 2, 2}, {3, 1, 9}}},
  };
  for (const Case& c : cases)
    EXPECT_THAT(check(c), AllOf(HasSubstr("matmul"), Not(HasSubstr("= convolution"))));
}

TEST(FewChannels, OtherTransposedConvolutionsStay) {
  const Case cases[] = {
      {"1,7,20", "7,9,32", transposed("8", "0", "0", "0")},                     // channels
      {"1,7,20", "7,1,32", transposed("3", "0", "0", "0")},                     // blocks
      {"1,8,20", "8,1,32", transposed("8", "0", "0", "0", ", groups=2")},       // groups
      {"1,7,20", "7,1,32", transposed("8", "0", "0", "0", ", dilations=[2]")},  // gaps
      {"1,7,20", "7,4,3", transposed("3", "0", "0", "0")},                      // columns
  };
  for (const Case& c : cases) EXPECT_THAT(check(c), HasSubstr("= convolution"));
}

TEST(FewChannels, PointwiseConvolutionsRunInLoops) {
  for (const std::string w : {"1,33,1,1", "4,33,1,1"})
    for (const std::string strides : {"1,1", "2,3"})
      for (const std::string more : {"", ", layout=\"channels_last\""})
        EXPECT_THAT(check({more.empty() ? "2,33,5,7" : "2,5,7,33", w,
                           "strides=[" + strides + "], padding=[0,0], padding_high=[0,0]" + more}),
                    Not(HasSubstr("(onednn)")));
  EXPECT_THAT(check({"2,33,5,7", "5,33,1,1", "strides=[1,1], padding=[0,0], padding_high=[0,0]"}),
              HasSubstr("(onednn)"));
  EXPECT_THAT(check({"2,33,5,7", "4,33,3,3", "strides=[1,1], padding=[0,0], padding_high=[0,0]"}),
              HasSubstr("(onednn)"));
}

TEST(FewChannels, ProductsToFewColumnsRunInLoops) {
  const auto explained = [](const std::string& rows, const std::string& columns, const std::string& depth,
                            const std::string& op = "linear") {
    const std::string matrix = op == "matmul" ? depth + "," + columns : columns + "," + depth;
    return program_of("graph @f(%x: f32[" + rows + "," + depth + "], %w: f32[" + matrix +
                      "]) {\n  %y = " + op + "(%x, %w)\n  return %y\n}\n")
        ->explain(false);
  };
  EXPECT_THAT(explained("100", "3", "64"), Not(HasSubstr("(onednn)")));
  EXPECT_THAT(explained("N", "2", "64"), Not(HasSubstr("(onednn)")));
  EXPECT_THAT(explained("2,N", "5", "512"), Not(HasSubstr("(onednn)")));
  EXPECT_THAT(explained("100", "3", "63"), HasSubstr("(onednn)"));
  EXPECT_THAT(explained("100", "4", "511"), HasSubstr("(onednn)"));
  EXPECT_THAT(explained("100", "6", "512"), HasSubstr("(onednn)"));
  EXPECT_THAT(explained("100", "N", "512"), HasSubstr("(onednn)"));
  EXPECT_THAT(explained("100", "3", "64", "matmul"), HasSubstr("(onednn)"));  // columns are not dense
}

TEST(FewChannels, DepthwiseFiltersRunInLoops) {
  for (const std::string& attrs :
       {std::string("strides=[1], padding=[2], padding_high=[1], groups=6"),
        transposed("1", "2", "1", "0", ", groups=6"), transposed("3", "0", "1", "2", ", groups=6")})
    EXPECT_THAT(check({"2,6,20", "6,1,5", attrs, "6"}), Not(HasSubstr("(onednn)")));
  EXPECT_THAT(check({"2,6,20", "6,4,5", transposed("1", "2", "1", "0", ", groups=6")}),
              HasSubstr("(onednn)"));
}

}  // namespace
}  // namespace tenon
