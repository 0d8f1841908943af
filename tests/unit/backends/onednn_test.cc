// Compares the oneDNN back end with the evaluator: operands in every layout, each epilogue, empty sizes, several threads in one
// program, frozen weights. Every case states what explain() must show, so that a case that the library does not run fails.
#include <atomic>
#include <cstdlib>
#include <limits>
#include <thread>

#include "tests/support/run_help.h"

namespace tenon {
namespace {

struct Case {
  const char* name;
  const char* text;
  std::vector<std::vector<int64_t>> shapes;
  const char* shows;             // a part of explain()
  std::vector<int> frozen = {};  // inputs that are params
};

struct Ran {
  std::shared_ptr<Program> program;
  std::vector<HostTensor> inputs, expected, outputs;

  void run() {
    Status status = tenon::run(*program, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void compare() const {
    for (size_t o = 0; o < outputs.size(); ++o)
      for (int64_t i = 0; i < outputs[o].count(); ++i) {
        const double want = expected[o].number(i), got = outputs[o].number(i);
        const DType dtype = outputs[o].dtype;
        const double tolerance = !is_float(dtype) ? 0 : dtype == DType::f32 ? 3e-5 : 2e-2;
        if (std::isnan(want) && std::isnan(got)) continue;
        ASSERT_NEAR(got, want, tolerance * std::max(1.0, std::abs(want)))
            << "output " << o << " element " << i << "\n"
            << program->explain(false);
      }
  }
};

void make(const Case& c, Ran& ran) {
  auto graph = parse_graph(c.text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (size_t i = 0; i < c.shapes.size(); ++i)
    ran.inputs.push_back(
        random_tensor(graph->type(graph->inputs[i].value).dtype, c.shapes[i], static_cast<uint32_t>(i + 1)));
  auto expected = evaluate(*graph, ran.inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ran.expected = std::move(*expected);
  ProgramOptions options;
  std::vector<Tensor> params;
  if (!c.frozen.empty()) {
    options.freeze = true;
    params.resize(c.shapes.size());
    for (int i : c.frozen) params[static_cast<size_t>(i)] = tensor_of(ran.inputs[static_cast<size_t>(i)]);
  }
  auto program = Program::make(*graph, options, params);
  ASSERT_TRUE(program.ok()) << program.status().message();
  ran.program = *program;
  ran.outputs = blank_like(ran.expected);
}

void check(const Case& c) {
  SCOPED_TRACE(c.name);
  Ran ran;
  make(c, ran);
  if (testing::Test::HasFatalFailure()) return;
  for (int round = 0; round < 2; ++round) {
    ran.run();
    if (testing::Test::HasFatalFailure()) return;
    ran.compare();
    if (testing::Test::HasFatalFailure()) return;
  }
  const std::string shown = ran.program->explain(false);
  EXPECT_NE(shown.find(c.shows), std::string::npos) << c.shows << " not in\n" << shown;
}

TEST(OneDnn, Matmul) {
  const Case cases[] = {
      {"plain",
       "graph @f(%a: f32[N,K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8, 21}},
       "matmul 5x8x21 f32"},
      {"transposed operands",
       R"(graph @f(%a: f32[K,N], %b: f32[M,K]) {
        %s = transpose(%a){perm=[1,0]}
        %t = transpose(%b){perm=[1,0]}
        %y = matmul(%s, %t)
        return %y
      })",
       {{8, 5}, {21, 8}},
       "matmul 5x8x21 f32"},
      {"rows of a batch",
       "graph @f(%a: f32[A,B,K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{3, 5, 8}, {8, 21}},
       "matmul 15x8x21 f32"},
      {"batches",
       "graph @f(%a: f32[A,B,N,K], %b: f32[A,B,K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{2, 3, 5, 8}, {2, 3, 8, 7}},
       "matmul 6x5x8x7 f32"},
      {"heads",
       R"(graph @f(%q: f32[B,S,H,16], %k: f32[B,S,H,16]) {
        %a = transpose(%q){perm=[0,2,1,3]}
        %b = transpose(%k){perm=[0,2,3,1]}
        %y = matmul(%a, %b)
        return %y
      })",
       {{2, 7, 3, 16}, {2, 7, 3, 16}},
       "matmul 2x3x7x16x7 f32"},
      {"broadcast batch",
       "graph @f(%a: f32[A,1,N,K], %b: f32[B,K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{2, 1, 5, 8}, {3, 8, 7}},
       "matmul 2x3x5x8x7 f32"},
      {"row",
       "graph @f(%a: f32[K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{8}, {8, 21}},
       "group 0 = cpu"},
      {"column",
       "graph @f(%a: f32[N,K], %b: f32[K]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8}},
       "group 0 = cpu"},
      {"dot",
       "graph @f(%a: f32[K], %b: f32[K]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{8}, {8}},
       "group 0 = cpu"},
      {"column of batches",
       "graph @f(%a: f32[A,N,K], %b: f32[K]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{2, 5, 8}, {8}},
       "group 0 = cpu"},
      {"row of batches",
       "graph @f(%a: f32[K], %b: f32[A,K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{8}, {2, 8, 5}},
       "matmul 2x1x8x5 f32"},
      {"every other column",
       R"(graph @f(%a: f32[N,16], %b: f32[8,M]) {
        %s = slice(%a){axis=1, start=1, end=16, step=2}
        %y = matmul(%s, %b)
        return %y
      })",
       {{5, 16}, {8, 21}},
       "matmul 5x8x21 f32"},
      {"flipped and repeated",
       R"(graph @f(%a: f32[N,8], %b: f32[8,1]) {
        %s = flip(%a){axes=[1]}
        %t = expand(%b){shape=[8,6]}
        %y = matmul(%s, %t)
        return %y
      })",
       {{5, 8}, {8, 1}},
       "matmul 5x8x6 f32"},
      {"no rows",
       "graph @f(%a: f32[N,K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{0, 8}, {8, 21}},
       "matmul"},
      {"nothing to sum",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[M]) {
        %s = matmul(%a, %b)
        %y = add(%s, %c)
        return %y
      })",
       {{5, 0}, {0, 21}, {21}},
       "matmul"},
      {"ones",
       "graph @f(%a: f32[N,K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{1, 1}, {1, 1}},
       "matmul 1x1x1 f32"},
      {"bf16, by the library where it is fast",
       "graph @f(%a: bf16[N,K], %b: bf16[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8, 21}},
       "step"},
      {"f16, by the library where it is fast",
       "graph @f(%a: f16[N,K], %b: f16[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8, 21}},
       "step"},
      {"linear",
       "graph @f(%a: f32[A,B,K], %w: f32[M,K], %c: f32[M]) {\n %y = linear(%a, %w, %c)\n return %y\n}",
       {{2, 5, 8}, {21, 8}, {21}},
       "linear 10x8x21 f32"},
  };
  for (const Case& c : cases) check(c);
}

TEST(OneDnn, ProductsOfIntegers) {
  const Case cases[] = {
      {"plain",
       "graph @f(%a: i8[N,8], %b: i8[8,M]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8, 21}},
       "int_matmul 5x8x21 i32"},
      {"unsigned and transposed",
       R"(graph @f(%a: u8[N,K], %b: i8[M,K]) {
        %t = transpose(%b){perm=[1,0]}
        %y = int_matmul(%a, %t)
        return %y
      })",
       {{5, 8}, {21, 8}},
       "int_matmul 5x8x21 i32"},
      {"batches",
       "graph @f(%a: i8[A,B,N,8], %b: i8[A,1,8,M]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{2, 3, 5, 8}, {2, 1, 8, 7}},
       "int_matmul 2x15x8x7 i32"},
      {"sums that f32 may not hold, as those of unsigned integers",
       "graph @f(%a: i8[A,N,K], %b: i8[A,K,M]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{2, 5, 2000}, {2, 2000, 7}},
       "int_matmul 2x5x2000x7 i32"},
      {"a vector, as unsigned integers",
       "graph @f(%a: i8[K], %b: i8[A,K,M]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{2000}, {2, 2000, 7}},
       "i32"},
      {"by a vector, as unsigned integers",
       "graph @f(%a: i8[A,N,K], %b: i8[K]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{2, 5, 2000}, {2000}},
       "i32"},
      {"scales, bias and relu",
       R"(graph @f(%a: i8[N,8], %b: i8[8,M], %s: f32[M], %c: f32[M]) {
        %p = int_matmul(%a, %b)
        %f = cast(%p){dtype=f32}
        %u = mul(%f, %s)
        %v = add(%u, %c)
        %y = relu(%v)
        return %y
      })",
       {{5, 8}, {8, 21}, {21}, {21}},
       "post-ops: mul add relu"},
      {"frozen",
       "graph @f(%a: i8[N,16], %b: i8[16,32]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{5, 16}, {16, 32}},
       "int_matmul 5x16x32 i32",
       {1}},
      {"integers behind it are loops'",
       R"(graph @f(%a: i8[N,8], %b: i8[8,M], %c: i32[M]) {
        %p = int_matmul(%a, %b)
        %y = add(%p, %c)
        return %y
      })",
       {{5, 8}, {8, 21}, {21}},
       "kernel"},
  };
  for (const Case& c : cases) check(c);
}

TEST(OneDnn, ProductsOfGroups) {
  const Case cases[] = {
      {"plain",
       "graph @f(%a: f32[N,8], %e: i64[G], %b: f32[G,8,M]) {\n %y = grouped_matmul(%a, %e, %b)\n return "
       "%y\n}",
       {{7, 8}, {3}, {3, 8, 21}},
       "grouped_matmul"},
      {"views",
       R"(graph @f(%a: bf16[K,N], %e: i32[9], %b: bf16[4,M,K]) {
        %s = slice(%e){axis=0, start=1, end=9, step=2}
        %t = transpose(%a){perm=[1,0]}
        %u = transpose(%b){perm=[0,2,1]}
        %y = grouped_matmul(%t, %s, %u)
        return %y
      })",
       {{8, 13}, {9}, {4, 21, 8}},
       "grouped_matmul"},
      {"frozen matrices",
       "graph @f(%a: f32[N,8], %e: i64[2], %b: f32[2,8,16]) {\n %y = grouped_matmul(%a, %e, %b)\n return "
       "%y\n}",
       {{9, 8}, {2}, {2, 8, 16}},
       "grouped_matmul",
       {2}},
      {"nothing to sum",
       "graph @f(%a: f32[N,K], %e: i64[G], %b: f32[G,K,M]) {\n %y = grouped_matmul(%a, %e, %b)\n return "
       "%y\n}",
       {{7, 0}, {3}, {3, 0, 21}},
       "grouped_matmul"},
  };
  for (const Case& c : cases) check(c);
}

TEST(OneDnn, Epilogues) {
  const std::string activations[] = {
      "relu(%s)",      "gelu(%s)", "gelu(%s){approximate=\"tanh\"}", "silu(%s)",
      "hardswish(%s)", "mish(%s)", "leaky_relu(%s){slope=0.1}",      "tanh(%s)",
      "neg(%s)",       "abs(%s)"};
  for (const std::string& a : activations) {
    const std::string text =
        "graph @f(%a: f32[A,B,K], %w: f32[M,K], %c: f32[M]) {\n %s = linear(%a, %w, %c)\n %y = " + a +
        "\n return %y\n}";
    const std::string shows = "post-ops: bias " + a.substr(0, a.find('('));
    check({a.c_str(), text.c_str(), {{2, 5, 8}, {21, 8}, {21}}, shows.c_str()});
  }
  const Case cases[] = {
      {"bias, number, residual, relu",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[M], %r: f32[N,M]) {
        %half = full(){value=0.5, shape=[], dtype=f32}
        %s = matmul(%a, %b)
        %t = add(%c, %s)
        %u = mul(%t, %half)
        %v = add(%u, %r)
        %y = relu(%v)
        return %y
      })",
       {{5, 8}, {8, 21}, {21}, {5, 21}},
       "post-ops: bias mul add relu"},
      {"the minimum of relu and a number",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M]) {
        %most = full(){value=0.25, shape=[], dtype=f32}
        %s = matmul(%a, %b)
        %r = relu(%s)
        %y = minimum(%most, %r)
        return %y
      })",
       {{5, 8}, {8, 21}},
       "post-ops: relu minimum"},
      {"column operand, fused where the library is fast at it",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[N,1]) {
        %s = matmul(%a, %b)
        %t = mul(%s, %c)
        %y = sub(%t, %c)
        return %y
      })",
       {{5, 8}, {8, 21}, {5, 1}},
       "matmul 5x8x21 f32"},
      {"operand per batch, fused where the library is fast at it",
       R"(graph @f(%a: f32[A,N,K], %b: f32[A,K,M], %c: f32[A,1,1]) {
        %s = matmul(%a, %b)
        %t = div(%s, %c)
        return %t
      })",
       {{3, 5, 8}, {3, 8, 21}, {3, 1, 1}},
       "matmul 3x5x8x21 f32"},
      {"one operand",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[]) {
        %s = matmul(%a, %b)
        %t = add(%s, %c)
        return %t
      })",
       {{5, 8}, {8, 21}, {}},
       "post-ops: add"},
      {"transposed residual",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[M,N]) {
        %s = matmul(%a, %b)
        %r = transpose(%c){perm=[1,0]}
        %t = add(%s, %r)
        return %t
      })",
       {{5, 8}, {8, 21}, {21, 5}},
       "post-ops: add"},
      {"read twice: no epilogue, its activation expands",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M]) {
        %s = matmul(%a, %b)
        %y = gelu(%s)
        return %y, %s
      })",
       {{5, 8}, {8, 21}},
       "matmul 5x8x21 f32"},
      {"result of one is operand of the other",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[K,M]) {
        %s = matmul(%a, %b)
        %t = matmul(%a, %c)
        %u = add(%s, %t)
        %y = relu(%u)
        return %y
      })",
       {{5, 8}, {8, 21}, {8, 21}},
       "post-ops: add relu"},
      {"packed weights",
       R"(graph @f(%a: f32[N,K], %w: f32[M,K] param, %c: f32[M] param) {
        %s = linear(%a, %w, %c)
        %y = gelu(%s)
        return %y
      })",
       {{128, 64}, {96, 64}, {96}},
       "post-ops: bias gelu",
       {1, 2}},
  };
  for (const Case& c : cases) check(c);
}

TEST(OneDnn, Convolution) {
  // With AMX, or without products of bf16, the library wants other blocks.
  const bool pairs = __builtin_cpu_supports("avx512bf16") && !__builtin_cpu_supports("amx-tile");
  const char* moved_twice = pairs ? ", weights moved twice" : "step";
#define CONV "strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1]"
  const Case cases[] = {
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
       "graph @f(%x: f32[N,16,L], %w: f32[24,16,1]) {\n %y = convolution(%x, %w){strides=[1], padding=[0], "
       "padding_high=[0], dilations=[1]}\n return %y\n}",
       {{1, 16, 1}, {24, 16, 1}},
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
  for (const Case& c : cases) check(c);
}

TEST(OneDnn, WeightGradients) {
#define GRADIENT(x, dy, attributes)                                                          \
  "graph @f(%x: " x ", %d: " dy ") {\n %w = convolution_weight_gradient(%x, %d){" attributes \
  "}\n return %w\n}"
#define AT2 "strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1]"
  const Case cases[] = {
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
       "convolution_weight_gradient 2x16x9x9 by 2x32x5x5 bf16"},
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
  for (const Case& c : cases) check(c);
}

TEST(OneDnn, AveragePooling) {
  const Case cases[] = {
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
  for (const Case& c : cases) check(c);
}

// NaN passes through every epilogue that the library gets, and through poolings.
TEST(OneDnn, NaN) {
  const std::string activations[] = {"relu(%s)",
                                     "gelu(%s)",
                                     "gelu(%s){approximate=\"tanh\"}",
                                     "silu(%s)",
                                     "hardswish(%s)",
                                     "hardsigmoid(%s)",
                                     "hardtanh(%s)",
                                     "elu(%s)",
                                     "mish(%s)",
                                     "leaky_relu(%s){slope=0.1}",
                                     "sigmoid(%s)",
                                     "tanh(%s)",
                                     "abs(%s)"};
  for (const std::string& a : activations) {
    SCOPED_TRACE(a);
    const std::string text =
        "graph @f(%a: f32[N,K], %b: f32[K,M]) {\n %s = matmul(%a, %b)\n %y = " + a + "\n return %y\n}";
    Ran ran;
    make({"", text.c_str(), {{5, 8}, {8, 40}}, ""}, ran);
    ASSERT_FALSE(HasFatalFailure());
    ran.inputs[0].set(3, {std::numeric_limits<double>::quiet_NaN(), 0});
    ran.run();
    for (int64_t i = 0; i < 200; ++i)
      ASSERT_EQ(std::isnan(ran.outputs[0].number(i)), i < 40) << i << ran.program->explain(false);
  }
  Ran ran;
  make({"",
        "graph @f(%x: f32[N,4,4,16]) {\n %y = max_pool(%x){kernel=[2,2], strides=[2,2], padding=[0,0], "
        "padding_high=[0,0], "
        "layout=\"channels_last\"}\n return %y\n}",
        {{1, 4, 4, 16}},
        ""},
       ran);
  ASSERT_FALSE(HasFatalFailure());
  ran.inputs[0].set(16, {std::numeric_limits<double>::quiet_NaN(), 0});
  ran.run();
  EXPECT_TRUE(std::isnan(ran.outputs[0].number(0)));
}

// Infinities, NaN, zeros and the largest numbers in front of every activation of an epilogue: in a part of the result and in all of
// it, behind a product and a convolution, in results with gaps and with permuted axes. With an update in front of the call, the
// call is not made when it is repeated, but ahead.
TEST(OneDnn, ExtremesInActivations) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kMost = 1e37;
  const double values[] = {-kInf,  kInf, std::nan(""), 0,     -0.0, kMost,  -kMost, 1e-30,
                           -1e-30, 1,    -1,           89,    -89,  -104.5, 3,      -3.1,
                           0.5,    -0.5, 1e20,         -1e20, 12,   -12.5,  1e10,   -5};
  constexpr int64_t kValues = sizeof values / sizeof values[0];
  const std::string activations[] = {"relu(%s)",
                                     "gelu(%s)",
                                     "gelu(%s){approximate=\"tanh\"}",
                                     "silu(%s)",
                                     "hardswish(%s)",
                                     "hardsigmoid(%s)",
                                     "hardtanh(%s)",
                                     "elu(%s)",
                                     "mish(%s)",
                                     "sigmoid(%s)",
                                     "tanh(%s)",
                                     "leaky_relu(%s){slope=0.1}",
                                     "leaky_relu(%s){slope=0.0}",
                                     "leaky_relu(%s){slope=-2.0}",
                                     "neg(%s)",
                                     "abs(%s)",
                                     "maximum(%s, %zero)",
                                     "minimum(%r, %six)"};
  struct Root {
    const char* inputs;
    const char* call;
    std::vector<std::vector<int64_t>> shapes;
    const char* strides;
  };
  const Root roots[] = {
      {"%a: f32[N,8], %w: f32[8,24], %c: f32[N,24]", "matmul(%a, %w)", {{5, 8}, {8, 24}, {5, 24}}, ""},
      {"%a: f32[3,N,8], %w: f32[3,8,24], %c: f32[3,N,24]",
       "matmul(%a, %w)",
       {{3, 5, 8}, {3, 8, 24}, {3, 5, 24}},
       " strides=[40*N,40,1]"},
      {"%a: f32[N,8], %w: f32[8,24], %c: f32[N,24]",
       "matmul(%a, %w)",
       {{5, 8}, {8, 24}, {5, 24}},
       " strides=[1,N+2]"},
      {"%a: f32[N,8,4,6], %w: f32[16,8,1,1], %c: f32[N,16,4,6]",
       "convolution(%a, %w){strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1]}",
       {{2, 8, 4, 6}, {16, 8, 1, 1}, {2, 16, 4, 6}},
       ""},
  };
  for (const Root& root : roots)
    for (const std::string& a : activations)
      for (const auto& [all, behind_update] :
           {std::pair{true, false}, std::pair{false, false}, std::pair{false, true}}) {
        SCOPED_TRACE(a + " of " + root.call + root.strides + (behind_update ? " behind an update" : ""));
        const std::string text =
            std::string("graph @f(") + root.inputs +
            ", %k: f32[1]) {\n %u = neg(%k)\n %zero = full(){value=0.0, shape=[], dtype=f32}\n %m = " +
            root.call +
            "\n %s = add(%m, %c)\n %r = relu(%s)\n %six = full(){value=6.0, shape=[], dtype=f32}\n %y = " +
            a + "\n return %y" + root.strides + (behind_update ? ", %u updates %k\n}" : "\n}");
        auto graph = parse_graph(text);
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        std::vector<HostTensor> inputs;
        for (uint32_t i = 0; i < 3; ++i) inputs.push_back(random_tensor(DType::f32, root.shapes[i], i + 1));
        inputs.push_back(random_tensor(DType::f32, {1}, 4));
        if (all) std::fill(inputs[0].bytes.begin(), inputs[0].bytes.end(), std::byte{0});
        for (int64_t i = 0; i < inputs[2].count(); i += all ? 1 : 7)
          inputs[2].set(i, {values[i % kValues], 0});
        auto expected = evaluate(*graph, inputs);
        ASSERT_TRUE(expected.ok()) << expected.status().message();
        auto program = Program::make(*graph, {}, {});
        ASSERT_TRUE(program.ok()) << program.status().message();
        const HostTensor& want = (*expected)[0];
        std::vector<int64_t> strides;
        if (graph->outputs[0].strides)
          for (Dim d : *graph->outputs[0].strides)
            strides.push_back(
                *graph->dims->eval(d, std::vector<int64_t>{root.shapes[0][root.shapes[0].size() - 2]}));
        else
          strides = dense_strides(want.shape);
        HostTensor memory(DType::f32, {2000});
        std::vector<Tensor> in;
        for (HostTensor& t : inputs) in.push_back(tensor_of(t));
        const std::vector<Tensor> out{{memory.bytes.data(), DType::f32, want.shape, strides}};
        const Status status = (*program)->run(in, out);
        ASSERT_TRUE(status.ok()) << status.message();
        const std::string shown = (*program)->explain(false);
        EXPECT_EQ(shown.find("copied after all steps"), std::string::npos) << shown;
        EXPECT_NE(shown.find(a.starts_with("minimum") ? "post-ops: add relu minimum" : "post-ops: add"),
                  std::string::npos)
            << shown;
        int64_t i = 0;
        walk(want.shape, {strides}, [&](const auto& at) {
          const double w = want.number(i), x = memory.number(at[0]), s = inputs[2].number(i++);
          const bool same = std::isnan(w)      ? std::isnan(x)
                            : std::isfinite(w) ? std::abs(x - w) <= 2e-4 * std::max(1.0, std::abs(w))
                                               : x == w;
          EXPECT_TRUE(same) << x << " and not " << w << " of " << s << " and a product\n" << shown;
        });
      }
}

// The library reads and writes with the host's strides; arrays whose strides it does not take are copied.
TEST(OneDnn, StridedOutputs) {
  auto graph = parse_graph(R"(graph @f(%a: f32[N,8] strides=[1,N], %b: f32[8,6]) {
    %s = matmul(%a, %b)
    %y = relu(%s)
    return %y strides=[1,N]
  })");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  HostTensor a = random_tensor(DType::f32, {8, 5}, 1), b = random_tensor(DType::f32, {8, 6}, 2),
             y(DType::f32, {6, 5});
  auto program = Program::make(*graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const std::vector<int64_t> a_shape{5, 8}, y_shape{5, 6}, strides{1, 5};
  const std::vector<Tensor> in{{a.bytes.data(), DType::f32, a_shape, strides}, tensor_of(b)},
      out{{y.bytes.data(), DType::f32, y_shape, strides}};
  Status status = (*program)->run(in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 6; ++j) {
      double want = 0;
      for (int64_t k = 0; k < 8; ++k) want += a.number(k * 5 + i) * b.number(k * 6 + j);
      ASSERT_NEAR(y.number(j * 5 + i), std::max(want, 0.0), 1e-5) << i << " " << j;
    }
  EXPECT_NE((*program)->explain(false).find("post-ops: relu"), std::string::npos)
      << (*program)->explain(false);
}

TEST(OneDnn, StridedBias) {
  auto graph = parse_graph(R"(graph @f(%a: f32[N,8], %w: f32[6,8], %b: f32[6] strides=[2]) {
    %y = linear(%a, %w, %b)
    return %y
  })");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  HostTensor a = random_tensor(DType::f32, {5, 8}, 1), w = random_tensor(DType::f32, {6, 8}, 2),
             b = random_tensor(DType::f32, {12}, 3), y(DType::f32, {5, 6});
  auto program = Program::make(*graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const std::vector<int64_t> shape{6}, strides{2};
  const std::vector<Tensor> in{tensor_of(a), tensor_of(w), {b.bytes.data(), DType::f32, shape, strides}},
      out{tensor_of(y)};
  const Status status = (*program)->run(in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 6; ++j) {
      double want = b.number(2 * j);
      for (int64_t k = 0; k < 8; ++k) want += a.number(i * 8 + k) * w.number(j * 8 + k);
      ASSERT_NEAR(y.number(i * 6 + j), want, 1e-5) << i << " " << j;
    }
}

// One program with many sizes: each plan has its own primitive, and all plans share the packed weights.
TEST(OneDnn, PlansOfManySizes) {
  auto graph =
      parse_graph("graph @f(%a: f32[A,B,24], %w: f32[40,24] param) {\n %y = linear(%a, %w)\n return %y\n}");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  HostTensor w = random_tensor(DType::f32, {40, 24}, 1);
  ProgramOptions options;
  options.freeze = true;
  const std::vector<Tensor> params{{}, tensor_of(w)};
  auto program = Program::make(*graph, options, params);
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (int64_t rows : {3, 0, 1, 17, 64, 3}) {
    HostTensor x = random_tensor(DType::f32, {2, rows, 24}, 2), y(DType::f32, {2, rows, 40});
    auto expected = evaluate(*graph, std::vector<HostTensor>{x, w});
    ASSERT_TRUE(expected.ok());
    const std::vector<Tensor> in{tensor_of(x), {}}, out{tensor_of(y)};
    Status status = (*program)->run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < y.count(); ++i)
      ASSERT_NEAR(y.number(i), (*expected)[0].number(i), 3e-5) << rows << " " << i;
  }
  EXPECT_EQ((*program)->stats().plans.plans, 5);
}

// The part of a constant that is packed may depend on a symbol; then every plan has its own packed copy.
TEST(OneDnn, PartsOfFrozenWeights) {
  auto graph =
      parse_graph(R"(graph @f(%a: f32[5,32], %w: f32[64,40] param, %b: f32[90] param, %n: i64[] = N) {
    %v = slice(%w){axis=0, start=N, end=N+32}
    %c = slice(%b){axis=0, start=N, end=N+40}
    %s = matmul(%a, %v)
    %y = add(%s, %c)
    return %y
  })");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  HostTensor a = random_tensor(DType::f32, {5, 32}, 1), w = random_tensor(DType::f32, {64, 40}, 2),
             b = random_tensor(DType::f32, {90}, 3), n(DType::i64, {});
  ProgramOptions options;
  options.freeze = true;
  const std::vector<Tensor> params{{}, tensor_of(w), tensor_of(b), {}};
  auto program = Program::make(*graph, options, params);
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (int64_t start : {0, 7, 32, 7}) {
    n.set(0, {0, start});
    HostTensor y(DType::f32, {5, 40});
    auto expected = evaluate(*graph, std::vector<HostTensor>{a, w, b, n});
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const std::vector<Tensor> in{tensor_of(a), {}, {}, tensor_of(n)}, out{tensor_of(y)};
    const Status status = (*program)->run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < y.count(); ++i)
      ASSERT_NEAR(y.number(i), (*expected)[0].number(i), 1e-4) << start << " " << i;
  }
  EXPECT_NE((*program)->explain(false).find("weights packed"), std::string::npos)
      << (*program)->explain(false);
}

// Equal calls share their arrangement but not their weights. Packed weights are in memory of the host's allocator.
TEST(OneDnn, PackedWeightsAreTheHostsMemory) {
  const char* text = R"(graph @f(%a: f32[N,96], %w: f32[96,96] param, %v: f32[96,96] param) {
    %s = linear(%a, %w)
    %y = linear(%s, %v)
    return %y
  })";
  struct Heap {
    std::atomic<int64_t> now{0};
  } heap;
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  HostTensor w = random_tensor(DType::f32, {96, 96}, 1), v = random_tensor(DType::f32, {96, 96}, 2);
  ProgramOptions options;
  options.freeze = true;
  options.allocator.user = &heap;
  options.allocator.alloc = [](void* user, size_t bytes, size_t alignment) {
    Heap& h = *static_cast<Heap*>(user);
    h.now += static_cast<int64_t>(bytes);
    return std::aligned_alloc(alignment, bytes);
  };
  options.allocator.free = [](void* user, void* block, size_t bytes) {
    static_cast<Heap*>(user)->now -= static_cast<int64_t>(bytes);
    std::free(block);
  };
  {
    const std::vector<Tensor> params{{}, tensor_of(w), tensor_of(v)};
    auto program = Program::make(*graph, options, params);
    ASSERT_TRUE(program.ok()) << program.status().message();
    for (int64_t rows : {8, 5}) {
      HostTensor x = random_tensor(DType::f32, {rows, 96}, 3);
      HostTensor y(DType::f32, {rows, 96});
      auto expected = evaluate(*graph, std::vector<HostTensor>{x, w, v});
      ASSERT_TRUE(expected.ok());
      const std::vector<Tensor> in{tensor_of(x), {}, {}}, out{tensor_of(y)};
      Status status = (*program)->run(in, out);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int64_t i = 0; i < y.count(); ++i)
        ASSERT_NEAR(y.number(i), (*expected)[0].number(i), 1e-3) << rows << " " << i;
    }
    EXPECT_NE((*program)->explain(false).find("weights packed"), std::string::npos);
    EXPECT_GE(heap.now, 2 * 96 * 96 * 4);
  }
  EXPECT_EQ(heap.now, 0);
}

// Otherwise a program that gets other sizes in each call keeps a thousand plans with 100 KB of machine code for each product.
TEST(OneDnn, PlansCountTheMemoryOfPrimitives) {
  auto graph =
      parse_graph("graph @g(%x: f32[N,96], %w: f32[96,96]) {\n  %y = matmul(%x, %w)\n  return %y\n}\n");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ProgramOptions options;
  options.limits.bytes = 1 << 20;
  auto program = Program::make(*graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  HostTensor w = random_tensor(DType::f32, {96, 96}, 1);
  for (int64_t rows = 40; rows < 80; ++rows) {
    std::vector<HostTensor> inputs = {random_tensor(DType::f32, {rows, 96}, 2), w};
    std::vector<HostTensor> outputs = {HostTensor(DType::f32, {rows, 96})};
    const Status status = run(**program, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  const PlanStats plans = (*program)->stats().plans;
  EXPECT_GE(plans.plans, 2);
  EXPECT_LE(plans.plans, 20);
  EXPECT_EQ(plans.plans + plans.evictions, 40);
  EXPECT_LE(plans.bytes, 1 << 20);
}

TEST(OneDnn, SeveralThreadsRunOneProgram) {
  const Case c = {"",
                  R"(graph @f(%a: f32[N,K], %w: f32[M,K] param, %c: f32[M] param, %r: f32[N,M]) {
    %s = linear(%a, %w, %c)
    %g = gelu(%s)
    %y = add(%g, %r)
    return %y
  })",
                  {{33, 64}, {96, 64}, {96}, {33, 96}},
                  "",
                  {1, 2}};
  Ran first;
  make(c, first);
  ASSERT_FALSE(HasFatalFailure());
  std::vector<Ran> each(4, first);
  std::vector<std::thread> threads;
  for (Ran& r : each)
    threads.emplace_back([&r] {
      for (int i = 0; i < 50; ++i) r.run();
    });
  for (std::thread& t : threads) t.join();
  for (const Ran& r : each) r.compare();
}

// The library has fast code, not reference code, for the shapes of real networks.
TEST(OneDnn, FastImplementations) {
  struct Shape {
    const char* name;
    int64_t c, o, size, kernel, stride, groups;
  };
  const Shape shapes[] = {
      {"ResNet-50 first", 3, 64, 224, 7, 2, 1},           {"ResNet-50 1x1", 64, 256, 56, 1, 1, 1},
      {"ResNet-50 3x3", 128, 128, 28, 3, 1, 1},           {"ResNet-50 3x3 down", 256, 256, 28, 3, 2, 1},
      {"ResNet-50 last", 2048, 512, 7, 1, 1, 1},          {"MobileNetV3 first", 3, 16, 224, 3, 2, 1},
      {"MobileNetV3 depthwise 3", 64, 64, 112, 3, 2, 64}, {"MobileNetV3 depthwise 5", 72, 72, 56, 5, 2, 72},
      {"MobileNetV3 squeeze", 72, 24, 1, 1, 1, 1},        {"MobileNetV3 excite", 24, 72, 1, 1, 1, 1},
  };
  for (const Shape& s : shapes) {
    SCOPED_TRACE(s.name);
    auto n = [](int64_t v) { return std::to_string(v); };
    const std::string kernel = n(s.kernel), pad = n(s.kernel / 2);
    const std::string text = "graph @f(%x: f32[1," + n(s.size) + "," + n(s.size) + "," + n(s.c) +
                             "], %w: f32[" + n(s.o) + "," + n(s.c / s.groups) + "," + kernel + "," + kernel +
                             "] param, %b: f32[" + n(s.o) +
                             "] param) {\n %y = convolution(%x, %w, %b){strides=[" + n(s.stride) + "," +
                             n(s.stride) + "], padding=[" + pad + "," + pad + "], padding_high=[" + pad +
                             "," + pad + "], dilations=[1,1], groups=" + n(s.groups) +
                             ", layout=\"channels_last\"}\n %r = relu(%y)\n return %r\n}";
    auto graph = parse_graph(text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    HostTensor w = random_tensor(DType::f32, {s.o, s.c / s.groups, s.kernel, s.kernel}, 1),
               b = random_tensor(DType::f32, {s.o}, 2);
    ProgramOptions options;
    options.freeze = true;
    const std::vector<Tensor> params{{}, tensor_of(w), tensor_of(b)};
    auto program = Program::make(*graph, options, params);
    ASSERT_TRUE(program.ok()) << program.status().message();
    HostTensor x = random_tensor(DType::f32, {1, s.size, s.size, s.c}, 3);
    const int64_t out = (s.size + 2 * (s.kernel / 2) - s.kernel) / s.stride + 1;
    HostTensor y(DType::f32, {1, out, out, s.o});
    const std::vector<Tensor> in{tensor_of(x), {}, {}}, outs{tensor_of(y)};
    Status status = (*program)->run(in, outs);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::string shown = (*program)->explain(false);
    EXPECT_NE(shown.find("post-ops: bias relu"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("ref"), std::string::npos) << shown;
  }
  for (auto [k, m] : {std::pair{768, 768}, std::pair{3072, 768}, std::pair{768, 3072}}) {
    const std::string text = "graph @f(%x: f32[128," + std::to_string(k) + "], %w: f32[" + std::to_string(m) +
                             "," + std::to_string(k) + "] param, %b: f32[" + std::to_string(m) +
                             "] param) {\n %y = linear(%x, %w, %b)\n %r = gelu(%y)\n return %r\n}";
    auto graph = parse_graph(text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    HostTensor w = random_tensor(DType::f32, {m, k}, 1), b = random_tensor(DType::f32, {m}, 2),
               x = random_tensor(DType::f32, {128, k}, 3);
    HostTensor y(DType::f32, {128, m});
    ProgramOptions options;
    options.freeze = true;
    const std::vector<Tensor> params{{}, tensor_of(w), tensor_of(b)}, in{tensor_of(x), {}, {}},
        outs{tensor_of(y)};
    auto program = Program::make(*graph, options, params);
    ASSERT_TRUE(program.ok()) << program.status().message();
    Status status = (*program)->run(in, outs);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::string shown = (*program)->explain(false);
    EXPECT_NE(shown.find("weights packed, post-ops: bias gelu"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("ref"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("gemm"), std::string::npos) << shown;
  }
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

// Attention is fast whichever axes have size 1: the library sees no batch in a batch of one, and masks are broadcast along other axes
// then.
TEST(OneDnn, AttentionOfAnySizeIsFast) {
  for (const char* mask : {"1,1,N,N", "B,1,N,N", "B,1,1,N", "1,3,N,N", "B,3,N,N", "N,N"}) {
    const std::string text = std::string(
                                 "graph @f(%q: f32[B,N,3,16], %k: f32[B,N,3,16], %v: f32[B,N,3,16], "
                                 "%m: f32[") +
                             mask + R"(]) {
      %a = transpose(%q){perm=[0,2,1,3]}
      %b = transpose(%k){perm=[0,2,1,3]}
      %c = transpose(%v){perm=[0,2,1,3]}
      %y = attention(%a, %b, %c, %m){scale=0.25}
      return %y
    })";
    auto graph = parse_graph(text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    auto program = Program::make(*graph, {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    for (int64_t b : {2, 1, 3})
      for (int64_t n : {17, 2, 1}) {
        SCOPED_TRACE(std::string(mask) + ": B=" + std::to_string(b) + " N=" + std::to_string(n));
        std::vector<int64_t> shape;
        for (const char* c = mask; *c; c += c[1] ? 2 : 1)
          shape.push_back(*c == 'B' ? b : *c == 'N' ? n : *c - '0');
        std::vector<HostTensor> inputs;
        for (uint32_t i = 0; i < 3; ++i) inputs.push_back(random_tensor(DType::f32, {b, n, 3, 16}, i));
        inputs.push_back(random_tensor(DType::f32, shape, 3));
        auto expected = evaluate(*graph, inputs);
        ASSERT_TRUE(expected.ok()) << expected.status().message();
        HostTensor y(DType::f32, {b, 3, n, 16});
        std::vector<Tensor> in;
        for (HostTensor& t : inputs) in.push_back(tensor_of(t));
        const std::vector<Tensor> out{tensor_of(y)};
        Status status = (*program)->run(in, out);
        ASSERT_TRUE(status.ok()) << status.message();
        for (int64_t i = 0; i < y.count(); ++i) ASSERT_NEAR(y.number(i), (*expected)[0].number(i), 3e-5) << i;
        const std::string shown = (*program)->explain(false);
        for (const char* end : {"\n", ","})  // a refusal has more text behind it
          EXPECT_EQ(shown.find(std::string(" f32 ref:any") + end), std::string::npos) << shown;
      }
  }
}

// Products with frozen weights, in the form that the library takes.
TEST(OneDnn, FrozenWeights) {
  const char* text =
      R"(graph @f(%a: f32[N,24], %w: f32[M,24] param, %b: f32[M] param, %r: f32[N,M], %c: f32[M]) {
    %s = linear(%a, %w, %b)
    %x = mul(%s, %c)
    %y = add(%x, %r)
    %z = relu(%y)
    return %z
  })";
  for (int64_t rows : {1, 2, 13, 64})
    for (int64_t columns : {1, 8, 37, 96}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns");
      check({"rows",
             text,
             {{rows, 24}, {columns, 24}, {columns}, {rows, columns}, {columns}},
             "post-ops: bias mul add relu",
             {1, 2}});
    }
  check({"a part of wider rows",
         R"(graph @f(%a: f32[N,40], %w: f32[16,32] param) {
        %s = slice(%a){axis=1, start=3, end=19}
        %y = matmul(%s, %w)
        return %y
      })",
         {{9, 40}, {16, 32}},
         "matmul 9x16x32 f32",
         {1}});
  check({"columns of the source",
         R"(graph @f(%a: f32[K,N], %w: f32[K,32] param) {
        %s = transpose(%a){perm=[1,0]}
        %y = matmul(%s, %w)
        return %y
      })",
         {{16, 9}, {16, 32}},
         "matmul 9x16x32 f32",
         {1}});
}

}  // namespace
}  // namespace tenon
