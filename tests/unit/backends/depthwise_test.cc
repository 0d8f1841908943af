// Compares inner::Depthwise with sums in double: odd sizes, padding, steps, dilations, gaps between rows, channels that fill no whole vectors,
// one thread and several. Programs whose back end chooses it agree with the evaluator.
#include "backends/inner/depthwise.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/compared_run.h"
#include "tests/support/random_floats.h"

namespace tenon {
namespace {

using inner::Depthwise;
using inner::VolumeShape;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Axes = VolumeShape::Axes;

// Volumes and results with gaps behind each pixel, row, layer and volume.
VolumeShape shape_of(int64_t channels, Axes size, Axes window, Axes step, Axes low, Axes dilation,
                     int64_t gap) {
  VolumeShape s{.volumes = 2, .channels = channels, .size = size, .window = window};
  s.step = step, s.low = low, s.dilation = dilation;
  for (size_t i = 0; i < 3; ++i)
    s.out_size[i] = (size[i] + 2 * low[i] - dilation[i] * (window[i] - 1) - 1) / step[i] + 1;
  const auto strides = [&](const Axes& of) {
    const int64_t column = channels + gap, row = of[2] * column + gap, layer = of[1] * row + gap;
    return VolumeShape::Strides{of[0] * layer + gap, {layer, row, column}};
  };
  s.in = strides(s.size);
  s.out = strides(s.out_size);
  s.windows = {window[0] * window[1] * window[2] + gap, {window[1] * window[2], window[2], 1}};
  return s;
}

// Calls visit(indices) for all indices within the sizes.
template <class Visit>
void each_of(const Axes& sizes, const Visit& visit) {
  for (int64_t i = 0; i < sizes[0]; ++i)
    for (int64_t j = 0; j < sizes[1]; ++j)
      for (int64_t k = 0; k < sizes[2]; ++k) visit(Axes{i, j, k});
}

int64_t place(const VolumeShape::Strides& strides, int64_t volume, const Axes& at) {
  int64_t sum = volume * strides.volume;
  for (size_t i = 0; i < 3; ++i) sum += at[i] * strides.axes[i];
  return sum;
}

double exact(const VolumeShape& s, const std::vector<float>& in, const std::vector<float>& windows,
             int64_t volume, const Axes& result, int64_t channel) {
  double sum = 0;
  each_of(s.window, [&](const Axes& tap) {
    Axes at;
    for (size_t i = 0; i < 3; ++i) {
      at[i] = result[i] * s.step[i] - s.low[i] + tap[i] * s.dilation[i];
      if (at[i] < 0 || at[i] >= s.size[i]) return;
    }
    int64_t weight = channel * s.windows.channel;
    for (size_t i = 0; i < 3; ++i) weight += tap[i] * s.windows.axes[i];
    sum += double{in[static_cast<size_t>(place(s.in, volume, at) + channel)]} *
           windows[static_cast<size_t>(weight)];
  });
  return sum;
}

std::vector<float> computed(const VolumeShape& s, const std::vector<float>& in,
                            const std::vector<float>& windows, const float* bias, int threads) {
  const Depthwise convolution(s);
  std::vector<float> scratch(static_cast<size_t>(convolution.scratch_floats()) + 16, NAN);
  float* aligned =
      scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64 / sizeof(float);
  std::vector<float> out(static_cast<size_t>(s.volumes * s.out.volume), -77.0f);
  convolution.run(in.data(), windows.data(), bias, out.data(), aligned, default_parallel(), threads);
  return out;
}

TEST(Depthwise, AgreesWithSumsInDouble) {
  const Axes windows[] = {{3, 3, 3}, {1, 1, 1}, {2, 3, 5}, {1, 7, 1}};
  for (const Axes& window : windows)
    for (const Axes& size : {Axes{3, 5, 21}, Axes{4, 2, 7}, Axes{1, 6, 3}})
      for (const auto& [step, dilation, gap, channels] : {std::tuple(1, 1, 0, 16), std::tuple(2, 1, 3, 37),
                                                          std::tuple(1, 2, 1, 64), std::tuple(3, 1, 0, 21)})
        for (const Axes& low : {Axes{0, 0, 0}, Axes{1, 3, 2}, Axes{3, 3, 5}}) {
          const VolumeShape s =
              shape_of(channels, size, window, {step, step, step}, low, {dilation, dilation, dilation}, gap);
          if (!Depthwise::computes(s)) continue;  // no results
          const std::vector<float> in = random_floats(s.volumes * s.in.volume, 1),
                                   w = random_floats(channels * s.windows.channel, 2),
                                   bias = random_floats(channels, 3);
          for (const float* added : {static_cast<const float*>(nullptr), bias.data()}) {
            const std::vector<float> got = computed(s, in, w, added, 1);
            for (int64_t n = 0; n < s.volumes; ++n)
              each_of(s.out_size, [&](const Axes& at) {
                for (int64_t c = 0; c < channels; ++c)
                  ASSERT_NEAR(got[static_cast<size_t>(place(s.out, n, at) + c)],
                              exact(s, in, w, n, at, c) + (added ? added[c] : 0), 5e-5)
                      << at[0] << " " << at[1] << " " << at[2] << " " << c;
              });
            ASSERT_EQ(computed(s, in, w, added, 3), got);
          }
        }
}

TEST(Depthwise, LeavesOtherProblemsAlone) {
  const Axes ones{1, 1, 1}, none{0, 0, 0};
  EXPECT_TRUE(Depthwise::computes(shape_of(16, {9, 9, 9}, {3, 3, 3}, ones, none, ones, 0)));
  EXPECT_FALSE(Depthwise::computes(shape_of(3, {9, 9, 9}, {3, 3, 3}, ones, none, ones, 0)));
  EXPECT_FALSE(Depthwise::computes(shape_of(16, {2, 9, 9}, {3, 3, 3}, ones, none, ones, 0)));
}

double tolerance(DType dtype) { return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 2e-3 : 2e-2; }

std::string shown(const std::string& dtype, const std::string& volumes, const std::string& channels,
                  const std::string& more) {
  return compared_run("graph @f(%x: " + dtype + volumes + ", %w: " + dtype + "[" + channels +
                          ",1,3,3,3], %b: " + dtype + "[" + channels +
                          "]) {\n  %y = convolution(%x, %w, %b){groups=" + channels +
                          ", padding=[1,1,1], padding_high=[1,1,1], dilations=[1,1,1], " + more +
                          "}\n  %z = relu(%y)\n  return %z\n}\n",
                      tolerance, 2, {})
      .explained;
}

TEST(Depthwise, ProgramsUseIt) {
  const std::string dense = "strides=[1,1,1]", skips = "strides=[2,1,2]", last = ", layout=\"channels_last\"";
  for (const std::string dtype : {"f32", "bf16", "f16"}) {
    EXPECT_THAT(shown(dtype, "[2,3,5,6,17]", "17", dense + last), HasSubstr("depthwise")) << dtype;
    EXPECT_THAT(shown(dtype, "[2,32,3,5,7]", "32", dense), HasSubstr("depthwise")) << dtype;
    EXPECT_THAT(shown(dtype, "[2,32,3,5,30]", "32", skips), HasSubstr("depthwise")) << dtype;
    EXPECT_THAT(shown(dtype, "[2,32,3,5,30]", "32", dense), Not(HasSubstr("depthwise"))) << dtype;
    EXPECT_THAT(shown(dtype, "[2,8,3,5,7]", "8", dense), Not(HasSubstr("depthwise"))) << dtype;
  }
}

}  // namespace
}  // namespace tenon
