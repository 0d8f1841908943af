// Compares winograd::Convolution and WeightGradient with sums in double, and programs that use them with the evaluator: odd sizes,
// padding, every order of weights, epilogues, gaps between rows, one thread and several. Infinities and NaN stay in the results to which they belong.
#include "backends/winograd/convolution.h"
#include "backends/winograd/weight_gradient.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "tests/support/random_floats.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;
using winograd::Activation;
using winograd::Convolution;
using winograd::Shape;

// A convolution whose images have gaps behind each row and each image.
struct Sample {
  int64_t images = 1, channels = winograd::lanes(), out_channels = 2 * winograd::lanes(), height = 6,
          width = 6, padding = 1, gap = 0;
  bool turned = false;
  winograd::Activation activation = winograd::Activation::none;
  float slope = 0, most = 0;
  enum Order { oihw, ohwi, hwio } order = oihw;
  enum Other {
    none,
    image,
    of_each_image,
    of_all
  } other = none;  // an operand that is multiplied and then added

  Shape shape() const {
    Shape s;
    s.images = images, s.channels = channels, s.height = height, s.width = width;
    s.out_channels = out_channels;
    s.out_height = height + 2 * padding - 2, s.out_width = width + 2 * padding - 2;
    s.low = {padding, padding};
    const auto dense = [&](int64_t h, int64_t w, int64_t c) {
      const int64_t column = c + gap, row = w * column + gap;
      return winograd::ImageStrides{h * row + gap, row, column};
    };
    s.in = dense(height, width, channels);
    s.out = dense(s.out_height, s.out_width, out_channels);
    const int64_t c = channels, k = out_channels;
    if (order == oihw) s.weights = {c * 9, 9, 3, 1};
    if (order == ohwi) s.weights = {c * 9, 1, 3 * c, c};
    if (order == hwio) s.weights = {1, k, 3 * c * k, c * k};
    s.turned = turned;
    return s;
  }
  winograd::ImageStrides other_strides() const {
    if (other == image) return shape().out;
    return {other == of_each_image ? out_channels : 0, 0, 0};
  }
};

std::vector<float> compute(const Sample& sample, int threads) {
  const Shape s = sample.shape();
  const auto in = random_floats(s.images * s.in.image, 1),
             weights = random_floats(s.channels * s.out_channels * 9, 2),
             other = random_floats(s.images * s.out.image, 4);
  std::vector<float> out(static_cast<size_t>(s.images * s.out.image), -77.0f);
  const Convolution convolution(s, threads);
  std::vector<float> packed(static_cast<size_t>(convolution.packed_floats()), NAN),
      scratch(static_cast<size_t>(convolution.scratch_floats()), NAN);
  convolution.pack(weights.data(), packed.data(), default_parallel());
  const winograd::ImageStrides strides = sample.other_strides();
  const winograd::Term terms[] = {{true, other.data(), strides}, {false, other.data(), strides}};
  EXPECT_TRUE(convolution.run({in.data(),
                               packed.data(),
                               out.data(),
                               scratch.data(),
                               {terms, sample.other == Sample::none ? size_t{0} : size_t{2},
                                sample.activation, sample.slope, sample.most}},
                              default_parallel()));
  if (threads > 1) return out;
  std::vector<float> wanted(out.size(), -77.0f);
  for (int64_t n = 0; n < s.images; ++n)
    for (int64_t y = 0; y < s.out_height; ++y)
      for (int64_t x = 0; x < s.out_width; ++x)
        for (int64_t k = 0; k < s.out_channels; ++k) {
          double sum = 0;
          for (int64_t i = 0; i < 3; ++i)
            for (int64_t j = 0; j < 3; ++j)
              for (int64_t c = 0; c < s.channels; ++c) {
                const int64_t row = y + i - s.low[0], column = x + j - s.low[1];
                if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
                const int64_t a = s.turned ? 2 - i : i, b = s.turned ? 2 - j : j;
                sum +=
                    double{
                        in[static_cast<size_t>(n * s.in.image + row * s.in.row + column * s.in.column + c)]} *
                    weights[static_cast<size_t>(k * s.weights[0] + c * s.weights[1] + a * s.weights[2] +
                                                b * s.weights[3])];
              }
          if (sample.other != Sample::none) {
            const double value =
                other[static_cast<size_t>(n * strides.image + y * strides.row + x * strides.column + k)];
            sum = sum * value + value;
          }
          switch (sample.activation) {
            case Activation::none: break;
            case Activation::relu: sum *= sum < 0 ? double{sample.slope} : 1; break;
            case Activation::hardswish: sum *= std::clamp(sum / 6 + 0.5, 0.0, 1.0); break;
            case Activation::silu: sum /= 1 + std::exp(-sum); break;
          }
          if (sample.most != 0) sum = std::min(sum, double{sample.most});
          const auto at = static_cast<size_t>(n * s.out.image + y * s.out.row + x * s.out.column + k);
          EXPECT_NEAR(out[at], sum, 1e-5 * static_cast<double>(s.channels))
              << n << " " << y << " " << x << " " << k;
          wanted[at] = out[at];
        }
  EXPECT_EQ(out, wanted) << "something between the rows was written";
  return out;
}

void check(const Sample& sample) {
  SCOPED_TRACE(testing::Message() << sample.images << " images " << sample.height << "x" << sample.width
                                  << ", " << sample.channels << " to " << sample.out_channels
                                  << " channels, padding " << sample.padding << ", order " << sample.order
                                  << ", other " << sample.other << ", turned " << sample.turned << ", gap "
                                  << sample.gap);
  const auto alone = compute(sample, 1);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(alone, compute(sample, threads)) << threads << " threads";
}

TEST(Winograd, SizesAndPadding) {
  for (const int64_t padding : {0, 1, 2})
    for (const int64_t height : {1, 2, 3, 5, 8})
      for (const int64_t width : {1, 4, 7})
        if (height + 2 * padding > 2 && width + 2 * padding > 2)
          check({.images = 2, .height = height, .width = width, .padding = padding});
}

TEST(Winograd, ManyTilesAndChannels) {
  const int64_t lanes = winograd::lanes();
  for (const int64_t channels : {1, 3})
    for (const int64_t out_channels : {1, 2, 5})
      check({.images = 3,
             .channels = channels * lanes,
             .out_channels = out_channels * lanes,
             .height = 13,
             .width = 12});
  check({.images = 1, .channels = lanes, .height = 41, .width = 38});
}

TEST(Winograd, OrdersOfWeights) {
  for (const Sample::Order order : {Sample::oihw, Sample::ohwi, Sample::hwio})
    for (const bool turned : {false, true})
      check({.channels = 2 * winograd::lanes(), .turned = turned, .order = order});
}

TEST(Winograd, EpiloguesAndGaps) {
  for (const Sample::Other other : {Sample::none, Sample::image, Sample::of_each_image, Sample::of_all})
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::hardswish, Activation::silu})
      for (const float most : {0.0f, 0.75f})
        check({.images = 2,
               .height = 7,
               .gap = 5,
               .activation = activation,
               .slope = most == 0 ? 0.0f : 0.25f,
               .most = most,
               .other = other});
}

std::vector<float> compute_gradient(const Sample& sample, int threads) {
  const Shape s = sample.shape();
  const auto in = random_floats(s.images * s.in.image, 1), out = random_floats(s.images * s.out.image, 2);
  std::vector<float> weights(static_cast<size_t>(s.channels * s.out_channels * 9), NAN);
  const winograd::WeightGradient gradient(s, threads);
  std::vector<float> scratch(static_cast<size_t>(gradient.scratch_floats()), NAN);
  EXPECT_TRUE(gradient.run(in.data(), out.data(), weights.data(), scratch.data(), default_parallel()));
  if (threads > 1) return weights;
  for (int64_t k = 0; k < s.out_channels; ++k)
    for (int64_t c = 0; c < s.channels; ++c)
      for (int64_t tap = 0; tap < 9; ++tap) {
        double sum = 0;
        for (int64_t n = 0; n < s.images; ++n)
          for (int64_t y = 0; y < s.out_height; ++y)
            for (int64_t x = 0; x < s.out_width; ++x) {
              const int64_t row = y + tap / 3 - s.low[0], column = x + tap % 3 - s.low[1];
              if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
              sum +=
                  double{
                      in[static_cast<size_t>(n * s.in.image + row * s.in.row + column * s.in.column + c)]} *
                  out[static_cast<size_t>(n * s.out.image + y * s.out.row + x * s.out.column + k)];
            }
        EXPECT_NEAR(weights[static_cast<size_t>(k * s.weights[0] + c * s.weights[1] + tap / 3 * s.weights[2] +
                                                tap % 3 * s.weights[3])],
                    sum, 1e-4)
            << k << " " << c << " " << tap;
      }
  return weights;
}

TEST(Winograd, WeightGradients) {
  const int64_t lanes = winograd::lanes();
  const Sample samples[] = {
      {.images = 2, .height = 7, .width = 4},
      {.images = 3, .channels = 3 * lanes, .out_channels = 5 * lanes, .height = 13, .width = 12, .gap = 5},
      {.height = 5, .width = 8, .padding = 0, .order = Sample::ohwi},
      {.height = 3, .width = 1, .padding = 2, .order = Sample::hwio},
      {.channels = 2 * lanes, .out_channels = 3 * lanes, .height = 30, .width = 22}};
  for (const Sample& sample : samples) {
    SCOPED_TRACE(testing::Message() << sample.images << " images " << sample.height << "x" << sample.width
                                    << ", " << sample.channels << " to " << sample.out_channels
                                    << " channels");
    const auto alone = compute_gradient(sample, 1);
    for (const int threads : {2, 3, 8})
      EXPECT_EQ(alone, compute_gradient(sample, threads)) << threads << " threads";
  }
}

// An element of an input.
struct Special {
  size_t input;
  int64_t at;
  float value;
};

// Runs a program and compares it with the evaluator. Inputs with `param` are frozen.
std::string explained(const std::string& text, const std::vector<std::vector<int64_t>>& shapes,
                      const std::vector<Special>& special = {}) {
  const auto graph = parse_graph(text);
  if (!graph.ok()) throw std::runtime_error(graph.status().message());
  std::vector<HostTensor> inputs;
  ProgramOptions options;
  std::vector<Tensor> params(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i)
    inputs.push_back(random_tensor(DType::f32, shapes[i], static_cast<uint32_t>(i) + 1));
  for (const Special& s : special) inputs[s.input].set(s.at, {s.value, 0});
  for (size_t i = 0; i < shapes.size(); ++i)
    if (graph->inputs[i].param) {
      options.freeze = true;
      params[i] = tensor_of(inputs[i]);
    }
  const auto expected = evaluate(*graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.status().message();
  const auto program = Program::make(*graph, options, options.freeze ? params : std::vector<Tensor>());
  if (!program.ok()) throw std::runtime_error(program.status().message());
  std::vector<HostTensor> results = blank_like(*expected);
  for (int round = 0; round < 2; ++round) {
    const Status status = run(**program, inputs, results);
    EXPECT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < results[0].count(); ++i) {
      const double want = (*expected)[0].number(i), got = results[0].number(i);
      if (std::isnan(want) && std::isnan(got)) continue;
      if (std::isinf(want)) {
        EXPECT_EQ(got, want) << "element " << i;
        continue;
      }
      EXPECT_NEAR(got, want, 1e-4 * (1 + std::abs(want))) << "element " << i;
    }
  }
  return (*program)->explain(false);
}

constexpr const char* kOne = "strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1]";

// A convolution of images [N,H,W,32] and what follows it.
std::string graph_of(const std::string& follows, bool frozen = true, const std::string& attrs = kOne) {
  const std::string param = frozen ? " param" : "";
  return "graph @f(%x: f32[N,H,W,32], %w: f32[64,32,3,3]" + param + ", %b: f32[64]" + param +
         ", %z: f32[N,H,W,64]) {\n %c = convolution(%x, %w, %b){" + attrs + ", layout=\"channels_last\"}\n" +
         follows + "}\n";
}
std::vector<std::vector<int64_t>> shapes_of(int64_t n, int64_t h, int64_t w) {
  return {{n, h, w, 32}, {64, 32, 3, 3}, {64}, {n, h, w, 64}};
}

constexpr const char* kBare = " %y = add(%z, %z)\n return %c, %y\n";

TEST(Winograd, ProgramsUseIt) {
  EXPECT_THAT(
      explained(graph_of(kBare), shapes_of(2, 11, 12)),
      HasSubstr("convolution 2x32x11x12 by 64x32x3x3 f32 winograd, weights packed, post-ops: bias\n"));
  EXPECT_THAT(explained(graph_of(" %s = add(%c, %z)\n %y = relu(%s)\n return %y\n"), shapes_of(2, 11, 12)),
              HasSubstr("winograd, weights packed, post-ops: bias add relu"));
  EXPECT_THAT(explained(graph_of(" %h = full(){value=0.5, shape=[], dtype=f32}\n %s = relu(%c)\n %y = "
                                 "minimum(%s, %h)\n return %y, %z\n"),
                        shapes_of(2, 11, 12)),
              HasSubstr("winograd, weights packed, post-ops: bias relu minimum"));
  EXPECT_THAT(explained(graph_of(kBare, false), shapes_of(2, 15, 14)),
              HasSubstr("winograd, post-ops: bias\n"));
  for (const char* activation : {"silu", "hardswish"})
    EXPECT_THAT(explained(graph_of(" %y = " + std::string(activation) + "(%c)\n return %y, %z\n"),
                          shapes_of(2, 11, 12)),
                HasSubstr("winograd, weights packed, post-ops: bias " + std::string(activation)));
  // Batch normalisation of weights that are not frozen.
  EXPECT_THAT(
      explained(
          graph_of(
              " %m = mul(%c, %b)\n %a = add(%m, %b)\n %s = add(%a, %z)\n %y = leaky_relu(%s){slope=0.1}\n"
              " return %y\n",
              false),
          shapes_of(2, 15, 14)),
      HasSubstr("winograd, post-ops: bias mul add add leaky_relu\n"));
}

// An epilogue without a place in the step is left to loops where the step runs, and follows the library's call elsewhere.
TEST(Winograd, OtherEpiloguesFollowInLoops) {
  for (const char* follows : {"gelu(%c)", "mish(%c)", "tanh(%c)", "mul(%c, %h)"}) {
    const std::string body = " %h = full(){value=0.5, shape=[], dtype=f32}\n %s = " + std::string(follows) +
                             "\n %y = add(%s, %z)\n return %y\n";
    EXPECT_THAT(explained(graph_of(body), shapes_of(2, 11, 12)),
                HasSubstr("winograd, weights packed, post-ops: bias\n"));
  }
  const auto fixed = [](int64_t size) {
    const std::string image = "[1," + std::to_string(size) + "," + std::to_string(size) + ",32]";
    return program_of("graph @f(%x: f32" + image +
                      ", %w: f32[64,32,3,3] param) {\n %c = convolution(%x, %w){" + kOne +
                      ", layout=\"channels_last\"}\n %y = abs(%c)\n return %y\n}\n")
        ->explain(false);
  };
  EXPECT_THAT(fixed(40), HasSubstr("step 1 (cpu): abs"));
  EXPECT_THAT(fixed(4), HasSubstr("step 0 (onednn): convolution abs"));
}

// Images whose channels come first are stored in the other order before they are read.
TEST(Winograd, ImagesWithChannelsFirst) {
  const auto convolution = [](const std::string& x, const std::string& image) {
    return "graph @f(%x: " + x + ", %w: f32[64,32,3,3]) {\n" + image + " %y = convolution(%i, %w){" + kOne +
           "}\n return %y\n}\n";
  };
  for (const char* image : {" %i = reshape(%x){shape=[N,32,H,W]}\n", " %i = exp(%x)\n"})
    EXPECT_THAT(explained(convolution("f32[N,32,H,W]", image), {{2, 32, 15, 14}, {64, 32, 3, 3}}),
                HasSubstr("convolution 2x32x15x14 by 64x32x3x3 f32 winograd\n"));
  EXPECT_THAT(explained("graph @f(%x: f32[N,32,H,W], %d: f32[N,64,H,W]) {\n"
                        " %y = convolution_weight_gradient(%x, %d){kernel=[3,3], " +
                            std::string(kOne) + "}\n return %y\n}\n",
                        {{2, 32, 14, 14}, {2, 64, 14, 14}}),
              HasSubstr("convolution_weight_gradient 2x32x14x14 by 2x64x14x14 f32 winograd\n"));
  EXPECT_THAT(
      explained("graph @f(%x: f32[N,32,H,W], %w: f32[64,32,3,3] param) {\n %c = convolution(%x, %w){" +
                    std::string(kOne) + "}\n %y = mish(%c)\n return %y\n}\n",
                {{2, 32, 15, 14}, {64, 32, 3, 3}}),
      HasSubstr("winograd, weights packed\n"));
  const std::string same = " %i = reshape(%x){shape=[2,32,15,14]}\n";
  EXPECT_THAT(program_of(convolution("f32[2,32,15,14]", same))->explain(false), HasSubstr("step 1 (onednn)"));
  EXPECT_THAT(program_of(convolution("f32[2,32,15,14] strides=[6720,1,448,32]", same))->explain(false),
              HasSubstr("step 0 (onednn)"));
}

TEST(Winograd, TheLibraryKeepsTheRest) {
  // Few tiles; tiles that are half empty.
  EXPECT_THAT(explained(graph_of(kBare), shapes_of(1, 4, 4)), Not(HasSubstr("winograd")));
  EXPECT_THAT(explained(graph_of(kBare, false), shapes_of(1, 8, 8)), Not(HasSubstr("winograd")));
  EXPECT_THAT(explained(graph_of(kBare), shapes_of(20, 1, 40)), Not(HasSubstr("winograd")));
  for (const char* attrs : {"strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1]",
                            "strides=[1,1], padding=[2,2], padding_high=[2,2], dilations=[2,2]"})
    EXPECT_THAT(explained(graph_of(" %y = add(%z, %z)\n return %c, %y\n", true, attrs), shapes_of(2, 11, 12)),
                Not(HasSubstr("winograd")));
}

TEST(Winograd, TheEnvironmentTurnsItOff) {
  setenv("TENON_WINOGRAD", "off", 1);
  EXPECT_THAT(explained(graph_of(kBare), shapes_of(2, 11, 12)), Not(HasSubstr("winograd")));
  unsetenv("TENON_WINOGRAD");
}

TEST(Winograd, TransposedConvolutions) {
  for (const char* padding : {"0", "1", "2"}) {
    const std::string p = padding;
    EXPECT_THAT(
        explained(
            "graph @f(%x: f32[N,H,W,32], %w: f32[32,64,3,3]) {\n %y = convolution(%x, %w){strides=[1,1], "
            "padding=[" +
                p + "," + p + "], padding_high=[" + p + "," + p +
                "], dilations=[1,1], "
                "transposed=true, output_padding=[0,0], layout=\"channels_last\"}\n return %y\n}\n",
            {{2, 15, 17, 32}, {32, 64, 3, 3}}),
        HasSubstr("winograd"));
  }
}

TEST(Winograd, WeightGradientsInPrograms) {
  const auto gradient = [](int64_t size, const std::vector<Special>& special = {}) {
    return explained(
        "graph @f(%x: f32[N,H,W,32], %d: f32[N,H,W,64]) {\n %y = convolution_weight_gradient(%x, "
        "%d){kernel=[3,3], "
        "strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1], layout=\"channels_last\"}\n "
        "return %y\n}\n",
        {{2, size, size, 32}, {2, size, size, 64}}, special);
  };
  EXPECT_THAT(gradient(14), HasSubstr("convolution_weight_gradient 2x32x14x14 by 2x64x14x14 f32 winograd\n"));
  EXPECT_THAT(gradient(6), Not(HasSubstr("winograd")));
  const float inf = std::numeric_limits<float>::infinity();
  for (const float value : {inf, -inf, std::numeric_limits<float>::quiet_NaN()})
    for (const size_t input : {0, 1}) {
      const int64_t inner_pixel = (input == 0 ? 32 : 64) * (14 * 7 + 6);
      EXPECT_THAT(gradient(14, {{input, inner_pixel + 5, value}}), HasSubstr("winograd"));
    }
}

TEST(Winograd, InfinitiesAndNaNStayWhereTheyBelong) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float value : {inf, -inf, std::numeric_limits<float>::quiet_NaN(), 3e38f})
    for (const char* follows : {kBare, " %s = add(%c, %z)\n %y = silu(%s)\n return %y\n",
                                " %s = add(%c, %z)\n %y = relu(%s)\n return %y\n"})
      for (const Special special : {Special{0, 32 * (12 * 5 + 4) + 7, value}, {3, 64 * 12 * 5 + 9, value}})
        EXPECT_THAT(explained(graph_of(follows), shapes_of(1, 12, 12), {special}), HasSubstr("winograd"));
}

}  // namespace
}  // namespace tenon
