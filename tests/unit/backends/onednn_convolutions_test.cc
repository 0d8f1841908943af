// Convolutions, their gradients and poolings in the oneDNN back end: groups, layouts, empty sizes, epilogues.
#include "tests/support/onednn_case.h"

namespace tenon {
namespace {

TEST(OneDnn, Convolution) {
  // With AMX, or without products of bf16, the library wants other blocks.
  const bool pairs = __builtin_cpu_supports("avx512bf16") && !__builtin_cpu_supports("amx-tile");
  const char* moved_twice = pairs ? ", weights moved twice" : "step";
#define CONV "strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1]"
  const OneDnnCase cases[] = {
      {"channels first",
       "graph @f(%x: f32[N,16,9,9], %w: f32[32,16,3,3], %b: f32[32]) {\n %y = convolution(%x, %w, %b){" CONV
       "}\n"
       " %r = relu(%y)\n return %r\n}",
       {{2, 16, 9, 9}, {32, 16, 3, 3}, {32}},
       "post-ops: bias relu"},
      {"channels last",
       "graph @f(%x: f32[N,9,9,16], %w: f32[32,16,3,3], %b: f32[32]) {\n %y = convolution(%x, %w, %b){" CONV
       ", layout=\"channels_last\"}\n %r = relu(%y)\n return %r\n}",
       {{2, 9, 9, 16}, {32, 16, 3, 3}, {32}},
       "post-ops: bias relu"},
      {"frozen",
       "graph @f(%x: f32[N,9,9,16], %w: f32[32,16,3,3] param, %b: f32[32] param) {\n %y = convolution(%x, "
       "%w, %b){" CONV ", layout=\"channels_last\"}\n return %y\n}",
       {{2, 9, 9, 16}, {32, 16, 3, 3}, {32}},
       "weights packed",
       {1, 2}},
      {"a filter for each channel",
       "graph @f(%x: f32[N,6,L], %w: f32[6,1,4]) {\n %y = convolution(%x, %w){strides=[1], padding=[3], "
       "padding_high=[0], dilations=[1], groups=6}\n return %y\n}",
       {{2, 6, 21}, {6, 1, 4}},
       "kernel @mul_sum_f32("},
      {"groups",
       "graph @f(%x: f32[N,16,9,9], %w: f32[32,8,3,3]) {\n %y = convolution(%x, %w){" CONV
       ", groups=2}\n return %y\n}",
       {{2, 16, 9, 9}, {32, 8, 3, 3}},
       "convolution 2x16x9x9 by 2x16x8x3x3 f32"},
      {"depthwise",
       "graph @f(%x: f32[N,9,9,16], %w: f32[16,1,5,5]) {\n %y = convolution(%x, %w){strides=[1,1], "
       "padding=[2,2], "
       "padding_high=[2,2], dilations=[1,1], groups=16, layout=\"channels_last\"}\n %r = hardswish(%y)\n "
       "return %r\n}",
       {{2, 9, 9, 16}, {16, 1, 5, 5}},
       "post-ops: hardswish"},
      {"dilated, uneven padding",
       "graph @f(%x: f32[N,16,H,W], %w: f32[32,16,3,3]) {\n %y = convolution(%x, %w){strides=[1,2], "
       "padding=[1,0], padding_high=[2,3], dilations=[2,1]}\n return %y\n}",
       {{2, 16, 9, 8}, {32, 16, 3, 3}},
       "convolution 2x16x9x8 by"},
      {"residual",
       "graph @f(%x: f32[N,8,8,16], %w: f32[16,16,1,1], %b: f32[16], %r: f32[N,8,8,16]) {\n %y = "
       "convolution(%x, %w, "
       "%b){strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1], layout=\"channels_last\"}\n "
       "%s = add(%y, %r)\n"
       " %z = relu(%s)\n return %z\n}",
       {{2, 8, 8, 16}, {16, 16, 1, 1}, {16}, {2, 8, 8, 16}},
       "post-ops: bias add relu"},
      {"weights of any size",
       "graph @f(%x: f32[N,C,H,W], %w: f32[M,C,R,S], %b: f32[M]) {\n %y = convolution(%x, %w, %b){" CONV
       "}\n %r = relu(%y)\n return %r\n}",
       {{2, 16, 9, 8}, {32, 16, 3, 2}, {32}},
       "convolution 2x16x9x8 by 32x16x3x2 f32"},
      {"weights of any size, no channels",
       "graph @f(%x: f32[N,C,H,W], %w: f32[M,C,R,S], %b: f32[M]) {\n %y = convolution(%x, %w, %b){" CONV
       "}\n return %y\n}",
       {{2, 0, 9, 8}, {32, 0, 3, 3}, {32}},
       "convolution 2x1x9x8 by 32x1x3x3 f32"},
      {"transposed, weights of any size, no channels",
       "graph @f(%x: f32[N,2*C,5,5], %w: f32[2*C,M,3,3]) {\n %y = convolution(%x, %w){" CONV
       ", groups=2, transposed=true, output_padding=[1,1]}\n return %y\n}",
       {{2, 0, 5, 5}, {0, 4, 3, 3}},
       "convolution 2x2x5x5 by 2x4x1x3x3 f32"},
      {"depthwise, any number of channels",
       "graph @f(%x: f32[N,9,9,C], %w: f32[C,1,R,R]) {\n %y = convolution(%x, %w){strides=[1,1], "
       "padding=[2,2], padding_high=[2,2], dilations=[1,1], groups=C, layout=\"channels_last\"}\n"
       " return %y\n}",
       {{2, 9, 9, 16}, {16, 1, 5, 5}},
       "convolution 2x16x9x9 by 16x1x1x5x5 f32"},
      {"any number of groups",
       "graph @f(%x: f32[N,C,9,9], %w: f32[2*C,1,3,3]) {\n %y = convolution(%x, %w){" CONV
       ", groups=C}\n return %y\n}",
       {{2, 16, 9, 9}, {32, 1, 3, 3}},
       "convolution 2x16x9x9 by 16x2x1x3x3 f32"},
      {"one axis",
       "graph @f(%x: f32[N,16,L], %w: f32[32,16,3]) {\n %y = convolution(%x, %w){strides=[1], padding=[1], "
       "padding_high=[1], dilations=[1]}\n return %y\n}",
       {{2, 16, 20}, {32, 16, 3}},
       "convolution 2x16x20 by"},
      {"three axes",
       "graph @f(%x: f32[N,16,5,6,7], %w: f32[16,16,3,3,3]) {\n %y = convolution(%x, %w){strides=[1,1,1], "
       "padding=[1,1,1], padding_high=[1,1,1], dilations=[1,1,1]}\n return %y\n}",
       {{2, 16, 5, 6, 7}, {16, 16, 3, 3, 3}},
       "convolution 2x16x5x6x7 by"},
      {"transposed",
       "graph @f(%x: f32[N,16,5,5], %w: f32[16,8,3,3], %b: f32[16]) {\n %y = convolution(%x, %w, "
       "%b){strides=[2,2], "
       "padding=[1,1], padding_high=[1,1], dilations=[1,1], groups=2, transposed=true, "
       "output_padding=[1,1]}\n return %y\n}",
       {{2, 16, 5, 5}, {16, 8, 3, 3}, {16}},
       "convolution 2x16x5x5 by 2x8x8x3x3 f32"},
      {"transposed, in groups, without an epilogue",
       "graph @f(%x: f32[N,16,5,5], %w: f32[16,1,3,3], %z: f32[N,16,5,5]) {\n %y = convolution(%x, %w)"
       "{strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1], groups=16, transposed=true, "
       "output_padding=[0,0]}\n %s = add(%y, %z)\n return %s\n}",
       {{2, 16, 5, 5}, {16, 1, 3, 3}, {2, 16, 5, 5}},
       "ends here because the library computes the epilogue"},
      {"transposed, of few channels, without an epilogue",
       "graph @f(%x: f32[N,5,5,4], %w: f32[4,160,3,3], %z: f32[N,5,5,160]) {\n %y = convolution(%x, %w)"
       "{strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1], transposed=true, "
       "output_padding=[0,0], layout=\"channels_last\"}\n %s = mul(%y, %z)\n return %s\n}",
       {{2, 5, 5, 4}, {4, 160, 3, 3}, {2, 5, 5, 160}},
       "ends here because the library computes the epilogue"},
      {"transposed, to few channels, before an activation",
       "graph @f(%x: f32[N,H,W,16], %w: f32[16,8,4,4], %b: f32[8]) {\n %y = convolution(%x, %w, %b)"
       "{strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1], transposed=true, "
       "output_padding=[0,0], layout=\"channels_last\"}\n %r = silu(%y)\n return %r\n}",
       {{2, 16, 15, 16}, {16, 8, 4, 4}, {8}},
       "pad add sigmoid mul"},
      {"pointwise, of some pixels",
       "graph @f(%x: f32[N,H,W,16], %w: f32[32,16,1,1], %z: f32[32]) {\n %y = convolution(%x, %w)"
       "{strides=[2,3], padding=[0,0], padding_high=[0,0], dilations=[1,1], layout=\"channels_last\"}\n"
       " %s = add(%y, %z)\n return %s\n}",
       {{2, 9, 10, 16}, {32, 16, 1, 1}, {32}},
       "convolution 40x16x32 f32"},
      {"pointwise, of some pixels, by frozen weights",
       "graph @f(%x: f32[N,H,W,16], %w: f32[32,16,1,1] param) {\n %y = convolution(%x, %w)"
       "{strides=[2,2], padding=[0,0], padding_high=[0,0], dilations=[1,1], layout=\"channels_last\"}\n"
       " return %y\n}",
       {{2, 9, 9, 16}, {32, 16, 1, 1}},
       "convolution 2x16x9x9 by 32x16x1x1 f32",
       {1}},
      {"transposed and pointwise",
       "graph @f(%x: f32[N,5,6,16], %w: f32[16,8,1,1], %z: f32[N,5,6,8]) {\n %y = convolution(%x, %w)"
       "{strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1], transposed=true, "
       "output_padding=[0,0], layout=\"channels_last\"}\n %s = add(%y, %z)\n return %s\n}",
       {{2, 5, 6, 16}, {16, 8, 1, 1}, {2, 5, 6, 8}},
       "convolution 60x16x8 f32"},
      {"bf16, by the library where it is fast",
       "graph @f(%x: bf16[N,9,9,16], %w: bf16[32,16,3,3], %b: bf16[32]) {\n %y = convolution(%x, %w, "
       "%b){" CONV ", layout=\"channels_last\"}\n %r = relu(%y)\n return %r\n}",
       {{2, 9, 9, 16}, {32, 16, 3, 3}, {32}},
       "step"},
      {"weights of 16 bits, moved twice",
       "graph @f(%x: bf16[N,3,3,64], %w: bf16[64,64,3,3]) {\n %y = convolution(%x, %w){" CONV
       ", layout=\"channels_last\"}\n return %y\n}",
       {{2, 3, 3, 64}, {64, 64, 3, 3}},
       moved_twice},
      {"weights of 16 bits in groups, moved twice",
       "graph @f(%x: bf16[N,3,3,128], %w: bf16[128,64,3,3]) {\n %y = convolution(%x, %w){" CONV
       ", groups=2, layout=\"channels_last\"}\n return %y\n}",
       {{3, 3, 3, 128}, {128, 64, 3, 3}},
       moved_twice},
      {"weights of 16 bits, packed by way of another layout",
       "graph @f(%x: bf16[N,3,3,64], %w: bf16[64,64,3,3] param) {\n %y = convolution(%x, %w){" CONV
       ", layout=\"channels_last\"}\n return %y\n}",
       {{2, 3, 3, 64}, {64, 64, 3, 3}},
       "step",
       {1}},
      {"1x1, a product of pixels",
       "graph @f(%x: f32[N,8,8,16], %w: f32[24,16,1,1], %b: f32[24], %r: f32[N,8,8,24]) {\n %y = "
       "convolution(%x, %w, "
       "%b){strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1], layout=\"channels_last\"}\n "
       "%s = add(%y, %r)\n %z = relu(%s)\n return %z\n}",
       {{2, 8, 8, 16}, {24, 16, 1, 1}, {24}, {2, 8, 8, 24}},
       "convolution 128x16x24 f32"},
      {"1x1, images apart",
       "graph @f(%x: f32[N,16,5,7], %w: f32[24,16,1,1], %b: f32[24]) {\n %y = convolution(%x, %w, "
       "%b){strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1]}\n return %y\n}",
       {{3, 16, 5, 7}, {24, 16, 1, 1}, {24}},
       "x16x24 f32"},
      {"1x1, one pixel of one image",
       "graph @f(%x: f32[N,L,16], %w: f32[24,16,1]) {\n %y = convolution(%x, %w){strides=[1], padding=[0], "
       "padding_high=[0], dilations=[1], layout=\"channels_last\"}\n return %y\n}",
       {{1, 1, 16}, {24, 16, 1}},
       "convolution 1x16x24 f32"},
      {"1x1 with padding",
       "graph @f(%x: f32[N,16,5,7], %w: f32[24,16,1,1]) {\n %y = convolution(%x, %w){strides=[1,1], "
       "padding=[1,0], padding_high=[1,0], dilations=[1,1]}\n return %y\n}",
       {{2, 16, 5, 7}, {24, 16, 1, 1}},
       "convolution 2x16x5x7 by"},
      {"no images",
       "graph @f(%x: f32[N,16,9,9], %w: f32[32,16,3,3]) {\n %y = convolution(%x, %w){" CONV
       "}\n return %y\n}",
       {{0, 16, 9, 9}, {32, 16, 3, 3}},
       "convolution"},
      {"padding alone",
       "graph @f(%x: f32[N,16,H,9], %w: f32[32,16,3,3], %b: f32[32]) {\n %y = convolution(%x, %w, "
       "%b){strides=[1,1], "
       "padding=[2,1], padding_high=[2,1], dilations=[1,1]}\n return %y\n}",
       {{2, 16, 0, 9}, {32, 16, 3, 3}, {32}},
       "convolution"},
  };
#undef CONV
  for (const OneDnnCase& c : cases) check(c);
}

TEST(OneDnn, WeightGradients) {
#define GRADIENT(x, dy, attributes)                                                          \
  "graph @f(%x: " x ", %d: " dy ") {\n %w = convolution_weight_gradient(%x, %d){" attributes \
  "}\n return %w\n}"
#define AT2 "strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1]"
  const OneDnnCase cases[] = {
      {"channels first",
       GRADIENT("f32[N,16,H,9]", "f32[N,32,(H+1)//2,5]", "kernel=[3,3], " AT2),
       {{2, 16, 9, 9}, {2, 32, 5, 5}},
       "convolution_weight_gradient 2x16x9x9 by 2x32x5x5 f32"},
      {"channels last",
       GRADIENT("f32[N,9,9,16]", "f32[N,5,5,32]", "kernel=[3,3], " AT2 ", layout=\"channels_last\""),
       {{2, 9, 9, 16}, {2, 5, 5, 32}},
       "convolution_weight_gradient 2x16x9x9 by 2x32x5x5 f32"},
      {"1x1",
       GRADIENT("f32[N,16,7,5]", "f32[N,24,7,5]",
                "kernel=[1,1], strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1]"),
       {{2, 16, 7, 5}, {2, 24, 7, 5}},
       "convolution_weight_gradient 2x16x7x5 by 2x24x7x5 f32"},
      {"few channels",
       GRADIENT("f32[N,3,12,12]", "f32[N,16,6,6]",
                "kernel=[7,7], strides=[2,2], padding=[3,3], padding_high=[3,3], dilations=[1,1]"),
       {{2, 3, 12, 12}, {2, 16, 6, 6}},
       "convolution_weight_gradient 2x3x12x12 by"},
      {"groups, dilations, uneven padding",
       GRADIENT("f32[N,16,9,8]", "f32[N,32,8,9]",
                "kernel=[3,2], strides=[1,1], padding=[1,0], padding_high=[2,3], dilations=[2,2], groups=2"),
       {{2, 16, 9, 8}, {2, 32, 8, 9}},
       "convolution_weight_gradient 2x16x9x8 by 2x32x8x9 f32"},
      {"depthwise",
       GRADIENT("f32[N,16,9,9]", "f32[N,16,5,5]", "kernel=[3,3], groups=16, " AT2),
       {{3, 16, 9, 9}, {3, 16, 5, 5}},
       "convolution_weight_gradient 3x16x9x9 by 3x16x5x5 f32"},
      {"one axis",
       GRADIENT("f32[N,16,L]", "f32[N,8,L]",
                "kernel=[3], strides=[1], padding=[1], padding_high=[1], dilations=[1]"),
       {{2, 16, 21}, {2, 8, 21}},
       "convolution_weight_gradient 2x16x21 by 2x8x21 f32"},
      {"three axes",
       GRADIENT("f32[N,8,5,6,7]", "f32[N,16,3,4,5]",
                "kernel=[3,3,3], strides=[1,1,1], padding=[0,0,0], padding_high=[0,0,0], dilations=[1,1,1]"),
       {{2, 8, 5, 6, 7}, {2, 16, 3, 4, 5}},
       "convolution_weight_gradient 2x8x5x6x7 by"},
      {"bf16",
       GRADIENT("bf16[N,16,9,9]", "bf16[N,32,5,5]", "kernel=[3,3], " AT2),
       {{2, 16, 9, 9}, {2, 32, 5, 5}},
       "convolution_weight_gradient 2x16x9x9 by 2x32x5x5"},
      {"bf16, groups and dilations, wider than a block of the library, whose code for bf16 is wrong",
       GRADIENT("bf16[2,6,9,40]", "bf16[2,6,9,40]",
                "kernel=[3,3], strides=[1,1], padding=[2,2], padding_high=[2,2], dilations=[2,2], groups=3, "
                "layout=\"channels_first\""),
       {{2, 6, 9, 40}, {2, 6, 9, 40}},
       "2x6x9x40 by 2x6x9x40"},
      {"bf16, an image that is shorter than a step",
       GRADIENT("bf16[N,32,25,2]", "bf16[N,32,9,1]",
                "kernel=[2,2], strides=[3,3], padding=[1,1], padding_high=[1,1], dilations=[1,1], groups=8"),
       {{3, 32, 25, 2}, {3, 32, 9, 1}},
       "3x32x25x2 by 3x32x9x1"},
      {"bf16, a window that is longer than the image",
       GRADIENT("bf16[N,8,D,H,5]", "bf16[N,8,D,H,5]",
                "kernel=[3,1,1], strides=[1,1,1], padding=[1,0,0], padding_high=[1,0,0], dilations=[1,1,1]"),
       {{3, 8, 2, 5, 5}, {3, 8, 2, 5, 5}},
       "3x8x2x5x5 by 3x8x2x5x5"},
      {"no images",
       GRADIENT("f32[N,16,9,9]", "f32[N,32,5,5]", "kernel=[3,3], " AT2),
       {{0, 16, 9, 9}, {0, 32, 5, 5}},
       "convolution_weight_gradient 1x16x3x3 by"},
      {"padding alone",
       GRADIENT("f32[N,16,H,9]", "f32[N,32,(H+1)//2,5]",
                "kernel=[2,3], strides=[2,2], padding=[1,1], padding_high=[0,1], dilations=[1,1]"),
       {{2, 16, 1, 9}, {2, 32, 1, 5}},
       "convolution_weight_gradient 2x16x1x9 by"},
      {"no epilogue",
       "graph @f(%x: f32[N,16,9,9], %d: f32[N,32,5,5]) {\n %w = convolution_weight_gradient(%x, "
       "%d){kernel=[3,3], " AT2 "}\n %y = mul(%w, %w)\n return %y\n}",
       {{2, 16, 9, 9}, {2, 32, 5, 5}},
       "kernel @mul_f32"},
      {"a gradient that is repeated",
       "graph @f(%x: f32[N,16,9,9], %c: f32[32]) {\n %r = reshape(%c){shape=[1,32,1,1]}\n %d = "
       "expand(%r){shape=[N,32,5,5]}\n "
       "%w = convolution_weight_gradient(%x, %d){kernel=[3,3], " AT2 "}\n return %w\n}",
       {{2, 16, 9, 9}, {32}},
       "convolution_weight_gradient 2x16x9x9 by 2x32x5x5 f32"},
  };
#undef AT2
#undef GRADIENT
  for (const OneDnnCase& c : cases) check(c);
}

TEST(OneDnn, AveragePooling) {
  const OneDnnCase cases[] = {
      {"counted padding",
       "graph @f(%x: f32[N,9,9,16]) {\n %y = avg_pool(%x){kernel=[3,3], strides=[2,2], padding=[1,1], "
       "padding_high=[1,1], layout=\"channels_last\"}\n return %y\n}",
       {{2, 9, 9, 16}},
       "avg_pool 2x16x9x9 f32"},
      {"padding that does not count",
       "graph @f(%x: f32[N,9,8,16]) {\n %y = avg_pool(%x){kernel=[3,3], strides=[2,2], padding=[1,0], "
       "padding_high=[1,1], count_include_pad=false, layout=\"channels_last\"}\n return %y\n}",
       {{2, 9, 8, 16}},
       "avg_pool 2x16x9x8 f32"},
      {"ceil mode: by its body",
       "graph @f(%x: f32[N,16,8,8]) {\n %y = avg_pool(%x){kernel=[3,3], strides=[2,2], padding=[0,0], "
       "padding_high=[1,1]}\n return %y\n}",
       {{2, 16, 8, 8}},
       "kernel"},
      {"adaptive",
       "graph @f(%x: f32[N,8,8,16]) {\n %y = adaptive_avg_pool(%x){output=[2,4], layout=\"channels_last\"}\n "
       "return %y\n}",
       {{2, 8, 8, 16}},
       "adaptive_avg_pool 2x16x8x8 f32"},
      {"global",
       "graph @f(%x: f32[N,7,7,16]) {\n %y = adaptive_avg_pool(%x){output=[1,1], layout=\"channels_last\"}\n "
       "return %y\n}",
       {{2, 7, 7, 16}},
       "adaptive_avg_pool 2x16x7x7 f32"},
  };
  for (const OneDnnCase& c : cases) check(c);
}

// The gradient of a strided depthwise convolution of bf16 is computed in f32, where the library has fast code.
TEST(OneDnn, StridedDepthwiseGradientsOfBf16) {
  auto text = [](const char* groups, const char* weights, const char* strides) {
    return std::string("graph @f(%g: bf16[2,24,5,6], %w: bf16") + weights +
           ") {\n %y = convolution(%g, %w){strides=" + strides +
           ", padding=[1,1], padding_high=[1,1], dilations=[1,1], groups=" + groups +
           ", transposed=true}\n return %y\n}";
  };
  const std::vector<int64_t> image{2, 24, 5, 6};
  check({"strided", text("24", "[24,1,3,3]", "[2,2]").c_str(), {image, {24, 1, 3, 3}}, "24x1x1x3x3 f32"});
  check({"dense", text("24", "[24,1,3,3]", "[1,1]").c_str(), {image, {24, 1, 3, 3}}, ""});
  check({"of two channels a group", text("12", "[24,2,3,3]", "[2,2]").c_str(), {image, {24, 2, 3, 3}}, ""});
}

// The library adds up 512 channels in parts, and would finish each part with the bias and the epilogue.
TEST(OneDnn, TransposedConvolutionsOfManyChannels) {
  const std::vector<int64_t> image{2, 512, 4, 4}, weights{512, 16, 4, 4}, bias{16};
  for (const std::string dtype : {"f32", "f16", "bf16"})
    for (const std::string steps : {"[2,2]", "[4,4]"})
      for (const std::string more : {"%r = relu(%y)", "%r = add(%y, %y)"}) {
        const std::string text =
            "graph @f(%x: " + dtype + "[2,512,4,4], %w: " + dtype + "[512,16,4,4], %b: " + dtype +
            "[16]) {\n %h = full{value=0.0625, shape=[], dtype=" + dtype +
            "}\n %v = mul(%w, %h)\n %y = convolution(%x, %v, %b){transposed=true, strides=" + steps +
            ", padding=[1,1], padding_high=[1,1], dilations=[1,1]}\n " + more + "\n return %r\n}";
        check({steps.c_str(), text.c_str(), {image, weights, bias}, "(onednn)"});
      }
}

// Convolutions of 16-bit floats run in f32 where the library has no code for them.
TEST(OneDnn, ConvolutionsOf16Bits) {
  const std::string ones =
      "padding=[1,1], padding_high=[1,1], dilations=[1,1]}\n %r = relu(%y)\n return %r\n}";
  for (const std::string dtype : {"f16", "bf16"}) {
    auto text = [&](const std::string& x, const std::string& w, const std::string& call) {
      return "graph @f(%x: " + dtype + x + ", %w: " + dtype + w + ") {\n %y = convolution" + call + ones;
    };
    check({"strided",
           text("[N,16,9,7]", "[24,16,3,3]", "(%x, %w){strides=[2,2], ").c_str(),
           {{2, 16, 9, 7}, {24, 16, 3, 3}},
           "(onednn)"});
    check({"depthwise",
           text("[2,24,9,7]", "[24,1,3,3]", "(%x, %w){groups=24, strides=[1,1], ").c_str(),
           {{2, 24, 9, 7}, {24, 1, 3, 3}},
           "(onednn)"});
    check(
        {"transposed",
         text("[2,16,5,6]", "[16,24,3,3]", "(%x, %w){transposed=true, output_padding=[0,0], strides=[2,2], ")
             .c_str(),
         {{2, 16, 5, 6}, {16, 24, 3, 3}},
         "(onednn)"});
    check({"gradient by the weights",
           text("[2,16,9,7]", "[2,24,9,7]", "_weight_gradient(%x, %w){kernel=[3,3], strides=[1,1], ").c_str(),
           {{2, 16, 9, 7}, {2, 24, 9, 7}},
           "(onednn)"});
  }
}

// Behind a convolution of f32 the library computes functions such as silu more slowly than loops do. A step of
// backends/winograd computes some itself.
TEST(OneDnn, SlowFunctionsBehindConvolutions) {
  for (const char* function : {"silu", "gelu", "mish", "tanh", "relu", "hardswish"})
    for (auto [kernel, stride] : {std::pair(1, 1), std::pair(3, 2), std::pair(3, 1)}) {
      auto n = [](int v) { return std::to_string(v); };
      const std::string k = n(kernel), s = n(stride), p = n(kernel / 2);
      const std::string text = "graph @f(%x: f32[1,16,9,9], %w: f32[16,16," + k + "," + k +
                               "]) {\n %y = convolution(%x, %w){strides=[" + s + "," + s + "], padding=[" +
                               p + "," + p + "], padding_high=[" + p + "," + p +
                               "], dilations=[1,1]}\n %r = " + function + "(%y)\n return %r\n}";
      auto graph = parse_graph(text);
      ASSERT_TRUE(graph.ok()) << graph.status().message();
      auto program = Program::make(*graph, {}, {});
      ASSERT_TRUE(program.ok()) << program.status().message();
      const std::string shown = (*program)->explain(false), name = function;
      const bool slow = !(kernel == 3 && stride == 1) && name != "relu" && name != "hardswish";
      EXPECT_EQ(shown.find("convolution " + name) == std::string::npos, slow) << shown;
    }
}

// The library has no code of its own for padding as wide as these filters, and multiplies unrolled windows. It would compute an
// epilogue behind this product element by element: first layers of EEGNet and M5.
TEST(OneDnn, EpiloguesOfUnrolledWindows) {
  for (const std::string epilogue :
       {"%r = relu(%y)", "%r = mul(%y, %c)", "%m = mul(%y, %c)\n %r = relu(%m)"}) {
    const std::string text =
        "graph @f(%x: f32[2,1,5,256], %w: f32[8,1,1,64], %b: f32[8], %c: f32[8,1,1]) {\n "
        "%y = convolution(%x, %w, %b){strides=[1,1], padding=[0,32], padding_high=[0,32], "
        "dilations=[1,1]}\n " +
        epilogue + "\n return %r\n}";
    const std::string shown = program_of(text)->explain(false);
    EXPECT_NE(shown.find("step 0 (onednn): convolution\n"), std::string::npos) << shown;
    check({epilogue.c_str(), text.c_str(), {{2, 1, 5, 256}, {8, 1, 1, 64}, {8}, {8, 1, 1}}, "(onednn)"});
  }
}

// The library's products of unrolled windows take longer in bf16 than in f32.
TEST(OneDnn, UnrolledWindowsOfBf16RunInF32) {
  const std::string text =
      "graph @f(%x: bf16[2,1,5,256], %w: bf16[8,1,1,64]) {\n %y = convolution(%x, %w){strides=[1,1], "
      "padding=[0,32], padding_high=[0,32], dilations=[1,1]}\n return %y\n}";
  const std::string shown = program_of(text)->explain(false);
  EXPECT_NE(shown.find("(cpu): cast"), std::string::npos) << shown;
  check({"wide filters", text.c_str(), {{2, 1, 5, 256}, {8, 1, 1, 64}}, "(onednn)"});
}

// Images whose channels come first are stored in the other order by loops if their channels share a set of the cache and the library
// would reorder them.
TEST(OneDnn, ImagesWhoseChannelsShareASet) {
  const auto first_step = [](const std::string& image, const std::string& window) {
    const std::string pad = window == "1" ? "0" : "1";
    const std::string text = "graph @f(%x: f32[2,32," + image + "], %w: f32[10,32," + window + "," + window +
                             "]) {\n %y = convolution(%x, %w){strides=[1,1], padding=[" + pad + "," + pad +
                             "], padding_high=[" + pad + "," + pad + "], dilations=[1,1]}\n return %y\n}";
    const std::string shown = program_of(text)->explain(false);
    const size_t at = shown.find("step 0 (");
    return shown.substr(at, shown.find(')', at) - at + 1);
  };
  EXPECT_EQ(first_step("64,64", "3"), "step 0 (cpu)");
  EXPECT_EQ(first_step("16,64", "3"), "step 0 (cpu)");
  EXPECT_EQ(first_step("60,60", "3"), "step 0 (onednn)");
  EXPECT_EQ(first_step("64,64", "1"), "step 0 (onednn)") << "read in place";
  EXPECT_EQ(first_step("N,64", "3"), "step 0 (onednn)");
}

}  // namespace
}  // namespace tenon
