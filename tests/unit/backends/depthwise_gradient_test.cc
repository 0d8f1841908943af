// Compares inner::DepthwiseGradient with sums in double: odd sizes, padding, steps, dilations, gaps between rows, channels that fill no
// whole vectors, one thread and several. Programs whose back end chooses it agree with the evaluator.
#include "backends/inner/depthwise_gradient.h"

#include <gmock/gmock.h>

#include <cmath>

#include "src/base/convert.h"
#include "tests/support/graph_check.h"
#include "tests/support/random_floats.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

using inner::DepthwiseGradient;
using inner::DepthwiseShape;
using testing::HasSubstr;
using testing::Not;

// Images and results with gaps behind each pixel, row and image.
DepthwiseShape shape_of(DType dtype, int64_t images, int64_t channels, DepthwiseShape::Pair size,
                        DepthwiseShape::Pair window, DepthwiseShape::Pair step, DepthwiseShape::Pair low,
                        DepthwiseShape::Pair dilation, int64_t gap) {
  DepthwiseShape s{
      .dtype = dtype, .images = images, .channels = channels, .size = size, .out_size = {}, .window = window};
  s.step = step, s.low = low, s.dilation = dilation;
  for (size_t i = 0; i < 2; ++i)
    s.out_size[i] = (size[i] + 2 * low[i] - dilation[i] * (window[i] - 1) - 1) / step[i] + 1;
  const auto strides = [&](const DepthwiseShape::Pair& of) {
    const int64_t column = channels + gap, row = of[1] * column + gap;
    return DepthwiseShape::Strides{of[0] * row + gap, row, column};
  };
  s.in = strides(s.size);
  s.out = strides(s.out_size);
  s.windows = {window[0] * window[1] + gap, window[1], 1};
  return s;
}

std::vector<double> exact(const DepthwiseShape& s, const std::vector<float>& in,
                          const std::vector<float>& out) {
  std::vector<double> sums;
  for (int64_t c = 0; c < s.channels; ++c)
    for (int64_t i = 0; i < s.window[0]; ++i)
      for (int64_t j = 0; j < s.window[1]; ++j) {
        double sum = 0;
        for (int64_t n = 0; n < s.images; ++n)
          for (int64_t y = 0; y < s.out_size[0]; ++y)
            for (int64_t x = 0; x < s.out_size[1]; ++x) {
              const int64_t row = y * s.step[0] - s.low[0] + i * s.dilation[0],
                            column = x * s.step[1] - s.low[1] + j * s.dilation[1];
              if (row < 0 || row >= s.size[0] || column < 0 || column >= s.size[1]) continue;
              sum +=
                  double{
                      in[static_cast<size_t>(n * s.in.image + row * s.in.row + column * s.in.column + c)]} *
                  double{out[static_cast<size_t>(n * s.out.image + y * s.out.row + x * s.out.column + c)]};
            }
        sums.push_back(sum);
      }
  return sums;
}

std::vector<uint16_t> to_bf16(std::vector<float>& all) {
  std::vector<uint16_t> bits;
  for (float& x : all) {
    bits.push_back(f32_to_bf16(x));
    x = bf16_to_f32(bits.back());
  }
  return bits;
}

std::vector<float> computed(const DepthwiseShape& s, const void* in, const void* out, int threads) {
  const DepthwiseGradient gradient(s);
  std::vector<float> scratch(static_cast<size_t>(gradient.scratch_floats(threads)) + 16, NAN);
  float* aligned =
      scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64 / sizeof(float);
  const auto elements = static_cast<size_t>(s.channels * s.windows.channel);
  std::vector<float> made(elements, -77.0f);
  std::vector<uint16_t> narrow(elements, 0);
  void* to = s.dtype == DType::f32 ? static_cast<void*>(made.data()) : narrow.data();
  gradient.run(in, out, to, aligned, default_parallel(), threads);
  std::vector<float> dense;
  for (int64_t c = 0; c < s.channels; ++c)
    for (int64_t k = 0; k < s.window[0] * s.window[1]; ++k) {
      const auto at = static_cast<size_t>(c * s.windows.channel + k);
      dense.push_back(s.dtype == DType::f32 ? made[at] : bf16_to_f32(narrow[at]));
    }
  return dense;
}

TEST(DepthwiseGradient, AgreesWithSumsInDouble) {
  const DepthwiseShape::Pair windows[] = {{5, 5}, {7, 7}, {1, 4}, {3, 3}, {6, 2}, {9, 1}, {1, 17}};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& window : windows)
      for (const auto& [step, dilation, gap, images, channels] :
           {std::tuple(1, 1, 0, 2, 16), std::tuple(2, 1, 3, 1, 37), std::tuple(1, 2, 1, 3, 64),
            std::tuple(3, 1, 0, 2, 21)})
        for (const int64_t low : {0, 3}) {
          const DepthwiseShape s = shape_of(dtype, images, channels, {21, 40}, window, {step, step},
                                            {low, low}, {dilation, dilation}, gap);
          ASSERT_TRUE(DepthwiseGradient::computes(s));
          std::vector<float> in = random_floats(s.images * s.in.image, 1),
                             out = random_floats(s.images * s.out.image, 2);
          const std::vector<uint16_t> narrow_in = to_bf16(in), narrow_out = to_bf16(out);
          const bool is_f32 = dtype == DType::f32;
          const void *in_data = is_f32 ? static_cast<const void*>(in.data()) : narrow_in.data(),
                     *out_data = is_f32 ? static_cast<const void*>(out.data()) : narrow_out.data();
          const std::vector<double> want = exact(s, in, out);
          const std::vector<float> got = computed(s, in_data, out_data, 1);
          for (size_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(got[i], want[i], is_f32 ? 2e-4 : 0.01 * std::abs(want[i]) + 2e-4)
                << "window " << window[0] << "x" << window[1] << " step " << step << " low " << low << " at "
                << i;
          EXPECT_EQ(computed(s, in_data, out_data, 3), got);
        }
}

TEST(DepthwiseGradient, LeavesOtherProblemsAlone) {
  const auto computes = [](DType dtype, int64_t channels, DepthwiseShape::Pair window) {
    return DepthwiseGradient::computes(
        shape_of(dtype, 1, channels, {9, 9}, window, {1, 1}, {4, 4}, {1, 1}, 0));
  };
  EXPECT_TRUE(computes(DType::f32, 16, {5, 5}));
  EXPECT_FALSE(computes(DType::f16, 16, {5, 5}));
  EXPECT_FALSE(computes(DType::f32, 3, {5, 5}));
}

// Compares a program of one gradient of weights with the evaluator, and returns its explanation.
std::string shown(const std::string& type, int64_t channels, int64_t kernel, const std::string& axes,
                  const std::string& layout = "channels_last") {
  const std::string c = std::to_string(channels), k = std::to_string(kernel), p = std::to_string(kernel / 2);
  std::vector<int64_t> shape = axes == "2" ? std::vector<int64_t>{2, 13, 11} : std::vector<int64_t>{2, 13};
  shape.insert(layout == "channels_last" ? shape.end() : shape.begin() + 1, channels);
  std::string image;
  for (const int64_t size : shape) image += (image.empty() ? "[" : ",") + std::to_string(size);
  image += "]";
  const auto pair = [&](const std::string& n) {
    return axes == "2" ? "[" + n + "," + n + "]" : "[" + n + "]";
  };
  auto graph = parse_graph("graph @f(%x: " + type + image + ", %g: " + type + image +
                           ") {\n  %w = convolution_weight_gradient(%x, %g){kernel=" + pair(k) +
                           ", strides=" + pair("1") + ", padding=" + pair(p) + ", padding_high=" + pair(p) +
                           ", dilations=" + pair("1") + ", groups=" + c + ", layout=\"" + layout +
                           "\"}\n  return %w\n}");
  if (!graph.ok()) throw std::runtime_error(graph.status().message());
  const DType dtype = type == "f32" ? DType::f32 : DType::bf16;
  std::vector<HostTensor> inputs{random_tensor(dtype, shape, 1), random_tensor(dtype, shape, 2)};
  const CheckResult result = check_program(*graph, inputs);
  EXPECT_EQ(result.kind, CheckResult::right) << result.message;
  auto program = Program::make(*graph, {}, {});
  if (!program.ok()) throw std::runtime_error(program.status().message());
  auto expected = evaluate(*graph, inputs);
  std::vector<HostTensor> outputs = blank_like(*expected);
  EXPECT_TRUE(run(**program, inputs, outputs).ok());
  return (*program)->explain(false);
}

TEST(DepthwiseGradient, ProgramsUseItForLongWindows) {
  for (const std::string type : {"f32", "bf16"}) {
    EXPECT_THAT(shown(type, 32, 5, "2"), HasSubstr("depthwise"));
    EXPECT_THAT(shown(type, 19, 7, "2"), HasSubstr("depthwise"));
    EXPECT_THAT(shown(type, 16, 7, "1"), HasSubstr("depthwise"));
    EXPECT_THAT(shown(type, 16, 3, "1"), HasSubstr("depthwise"));
    EXPECT_THAT(shown(type, 32, 3, "2"), Not(HasSubstr("depthwise")));
    EXPECT_THAT(shown(type, 3, 5, "2"), Not(HasSubstr("depthwise")));
  }
}

// Along one axis, the library's code takes up to 300 times as long as loops.
TEST(DepthwiseGradient, LoopsReadSignalsWhoseChannelsAreNotDense) {
  for (const std::string type : {"f32", "bf16"})
    for (const int64_t taps : {3, 5, 9})
      EXPECT_THAT(shown(type, 16, taps, "1", "channels_first"), Not(HasSubstr("(onednn)"))) << taps;
}

}  // namespace
}  // namespace tenon
