// Gradients of graphs: several uses and targets, broadcast and symbolic sizes, stops, conventions, refusals. The rows
// have gradient_rows_test.cc.
#include "src/passes/gradient.h"

#include "src/ir/verify.h"
#include "src/ops/rows/names.h"
#include "tests/support/gradient_check.h"

namespace tenon {
namespace {

Graph parsed(std::string_view text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return *graph;
}

// Compares the gradient by every float input with finite differences.
void compare_all(std::string_view text, unsigned seed = 1) {
  const Graph graph = parsed(text);
  const auto made = gradient(graph, {.heads = true});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(verify(*made).ok()) << verify(*made).message();
  Numbers numbers(seed);
  std::vector<HostTensor> inputs;
  for (const InputBinding& input : graph.inputs) {
    const TensorType& type = graph.type(input.value);
    inputs.push_back(is_float(type.dtype) ? numbers.floats(type.dtype, shape_of(graph, type), -2, 2)
                                          : numbers.whole(type.dtype, shape_of(graph, type), 0, 1));
  }
  size_t output = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_float(inputs[i].dtype)) compare(graph, *made, inputs, static_cast<int>(i), output++, seed + 1);
}

TEST(Gradient, SumsTheGradientsOfSeveralUses) {
  compare_all(R"(graph @g(%x: f64[3,4], %w: f64[4,3]) {
    %a = matmul(%x, %w)
    %b = mul(%a, %a)
    %c = add(%b, %a)
    %d = matmul(%w, %c)
    return %c, %d
  })");
}

TEST(Gradient, SumsOverBroadcastAndSymbolicAxes) {
  compare_all(R"(graph @g(%x: f64[N,1,M], %y: f64[K,1], %z: f64[M], %s: f64[]) {
    %a = mul(%x, %y)
    %b = fma(%a, %z, %s)
    %c = expand(%s) {shape=[N,M]}
    %d = matmul(%b, %z)
    %e = mean(%b) {axes=[1,2]}
    return %b, %c, %d, %e
  })");
}

TEST(Gradient, PassesIntegersAndConditions) {
  compare_all(R"(graph @g(%x: f64[4,3], %y: f64[4,3], %i: i64[2], %m: bool[4,3]) {
    %n = cast(%x) {dtype=i64}
    %f = cast(%n) {dtype=f64}
    %p = mul(%f, %y)
    %q = where(%m, %p, %x)
    %r = gather(%q, %i) {axis=0}
    %k = argmax(%y) {axis=1}
    %t = gather(%x, %k) {axis=0}
    return %r, %t
  })");
}

TEST(Gradient, OfOpsRegisteredWithABody) {
  compare_all(R"(graph @g(%x: f64[2,5,3], %w: f64[5], %v: f64[5], %m: f64[5]) {
    %a = square(%v)
    %y = batch_norm(%x, %m, %a, %w, %w) {eps=0.1}
    %z = adaptive_avg_pool(%y) {output=[2]}
    return %y, %z
  })");
}

// Several updates go to one element, and some of them are zero.
TEST(Gradient, OfEveryModeOfScatter) {
  for (const std::string mode : {"set", "add", "mul", "max", "min"}) {
    SCOPED_TRACE(mode);
    const std::string attrs = "{axis=0, mode=\"" + mode + "\"}\n";
    const std::string update = mode == "mul" ? "where(%m, %u, %o)\n" : "neg(%u)\n";
    compare_all(
        "graph @g(%x: f64[3,2], %u: f64[4,2], %v: f64[2,2,2], %i: i64[4,2], %j: i64[2,2], %m: bool[4,2]) {\n"
        "%o = full {value=0.0, shape=[], dtype=f64}\n"
        "%w = " +
        update + "%a = scatter(%x, %i, %w) " + attrs + "%b = index_put(%a, %j, %v) " + attrs +
        "return %a, %b\n}");
  }
}

TEST(Gradient, OfWindows) {
  compare_all(R"(graph @g(%x: f64[N,70,M+70], %y: f64[N,9]) {
    %a = windows(%x) {axes=[1], sizes=[66], strides=[3], dilations=[1]}
    %b = windows(%x) {axes=[2], sizes=[67], strides=[2], dilations=[1]}
    %c = windows(%y) {axes=[1], sizes=[3], strides=[3], dilations=[1]}
    %d = windows(%y) {axes=[1], sizes=[2], strides=[3], dilations=[2]}
    return %a, %b, %c, %d
  })");
}

TEST(Gradient, OfConvolutionsWithUnevenSizes) {
  compare_all(R"(graph @g(%x: f64[2,4,7,N+4], %w: f64[6,2,2,3], %b: f64[6], %t: f64[4,3,2,2]) {
    %y = convolution(%x, %w, %b) {strides=[3,2], padding=[1,0], padding_high=[2,1], dilations=[2,1], groups=2}
    %z = convolution(%x, %t) {strides=[2,1], padding=[0,1], padding_high=[1,0], dilations=[3,2], transposed=true, output_padding=[2,1]}
    return %y, %z
  })");
}

// A training step's graph: convolution, batch statistics, pooling, attention-like softmax, loss.
TEST(Gradient, OfANetwork) {
  compare_all(R"(graph @g(%x: f64[2,3,6,6], %w: f64[4,3,3,3], %l: f64[5,36]) {
    %c = convolution(%x, %w) {strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1]}
    %m = mean(%c) {axes=[0,2,3]}
    %v = var(%c) {axes=[0,2,3], correction=0.0}
    %n = batch_norm(%c, %m, %v) {eps=0.001}
    %r = gelu(%n)
    %p = max_pool(%r) {kernel=[2,2], strides=[2,2], padding=[0,0], padding_high=[0,0]}
    %f = reshape(%p) {shape=[2,36]}
    %o = linear(%f, %l)
    %s = log_softmax(%o) {axis=1}
    return %s
  })");
}

TEST(Gradient, SecondOrder) {
  const Graph graph = parsed(R"(graph @g(%x: f64[3,4], %w: f64[4,2]) {
    %a = matmul(%x, %w)
    %b = tanh(%a)
    %c = softmax(%b) {axis=1}
    return %c
  })");
  const auto first = gradient(graph, {.wrt = std::vector{0}, .heads = true});
  ASSERT_TRUE(first.ok()) << first.status().message();
  compare_all(print(*first));
}

std::vector<HostTensor> run(const Graph& graph, std::vector<HostTensor> inputs) {
  const auto outputs = evaluate(graph, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? *outputs : std::vector<HostTensor>();
}

HostTensor vector_of(std::vector<double> values) {
  HostTensor out(DType::f64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) out.set_number(static_cast<int64_t>(i), values[i]);
  return out;
}

std::vector<double> values_of(const HostTensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.count(); ++i) out.push_back(t.number(i));
  return out;
}

TEST(Gradient, StopsAtStopGradient) {
  const Graph graph = parsed(R"(graph @g(%x: f64[2]) {
    %a = square(%x)
    %b = stop_gradient(%a)
    %c = mul(%b, %x)
    return %c
  })");
  const auto made = gradient(graph);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(values_of(run(*made, {vector_of({3, -2})})[0]), (std::vector<double>{9, 4}));
}

TEST(Gradient, OfAnUnreachedInputIsZero) {
  const Graph graph = parsed(
      "graph @g(%x: f64[2], %y: f64[2], %z: f64[2]) {\n%a = floor(%y)\n%b = add(%x, %a)\nreturn %b\n}");
  const auto made = gradient(graph);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const auto got = run(*made, {vector_of({3, -2}), vector_of({1, 1}), vector_of({1, 1})});
  EXPECT_EQ(values_of(got[0]), (std::vector<double>{1, 1}));
  EXPECT_EQ(values_of(got[1]), (std::vector<double>{0, 0}));
  EXPECT_EQ(values_of(got[2]), (std::vector<double>{0, 0}));
}

TEST(Gradient, ByAnInnerValueAndOnlySomeTargets) {
  Graph graph =
      parsed("graph @g(%x: f64[2]) {\n%a = exp(%x)\n%b = square(%a)\n%c = neg(%a)\nreturn %b, %c\n}");
  Builder b(graph);
  const ValueId a = 1, y = 2;
  const ValueId targets[] = {y, y}, wrt[] = {a, y, 0};
  const auto made = add_gradients(b, targets, {}, wrt);
  ASSERT_TRUE(made.ok()) << made.status().message();
  graph.outputs.clear();
  for (ValueId v : *made) graph.outputs.push_back({v, std::nullopt});
  const auto got = run(graph, {vector_of({0, 0})});
  EXPECT_EQ(values_of(got[0]), (std::vector<double>{4, 4}));
  EXPECT_EQ(values_of(got[1]), (std::vector<double>{2, 2}));
  EXPECT_EQ(values_of(got[2]), (std::vector<double>{4, 4}));
}

// The conventions of docs/gradients.md, which are PyTorch's.
TEST(Gradient, WhereThereIsNoDerivative) {
  const struct {
    const char* op;
    std::vector<double> x, gradient;
  } cases[] = {
      {"relu(%x)", {0, -1, 2}, {0, 0, 1}},
      {"abs(%x)", {0, -1, 2}, {0, -1, 1}},
      {"maximum(%x, %x)", {0, -1}, {1, 1}},
      {"max(%x) {axes=[0]}", {2, 1, 2}, {0.5, 0, 0.5}},
      {"cummax(%x) {axis=0}", {2, 1, 2}, {2, 0, 1}},
      {"pow(%x, %x)", {0, 1}, {0, 1}},
      {"prod(%x) {axes=[0]}", {2, 0, 3}, {0, 6, 0}},
      {"cumprod(%x) {axis=0}", {2, 0, 3, 0}, {1, 8, 0, 0}},
      {"hardtanh(%x)", {-1, 0, 1}, {0, 1, 0}},
      {"clamp(%x, %x, %x)", {-1, 0, 1}, {1, 1, 1}},
      {"logsumexp(%x) {axes=[0]}", {-INFINITY, -INFINITY}, {0, 0}},
      {"mish(%x)", {1e6, -1e6}, {1, 0}},
      {"elu(%x)", {1e6, -1e6}, {1, 0}},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.op);
    const Graph graph = parsed("graph @g(%x: f64[N]) {\n%y = " + std::string(one.op) + "\nreturn %y\n}");
    const auto made = gradient(graph);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(values_of(run(*made, {vector_of(one.x)})[0]), one.gradient);
  }
}

TEST(Gradient, OfASplitIsAConcatenation) {
  const Graph graph = parsed(R"(graph @g(%x: f64[N,6]) {
    %a = slice(%x) {axis=1, start=0, end=2}
    %b = slice(%x) {axis=1, start=2, end=5}
    %c = sin(%a)
    %d = cos(%b)
    return %c, %d
  })");
  const auto made = gradient(graph);
  ASSERT_TRUE(made.ok()) << made.status().message();
  int pads = 0, concats = 0;
  for (const Node& node : made->nodes) {
    pads += node.op == ops::pad;
    concats += node.op == ops::concat;
  }
  EXPECT_EQ(pads, 1) << print(*made);  // of the last column
  EXPECT_EQ(concats, 1) << print(*made);
  compare_all(print(graph));
}

TEST(Gradient, RefusesWhatHasNone) {
  const struct {
    const char* text;
    GradientOptions options;
    Code code;
    const char* message;
  } cases[] = {
      {"%y = airy_ai(%x)\nreturn %y",
       {},
       Code::unsupported,
       "%y = airy_ai(%x: f64[2]): no gradient of airy_ai is known"},
      {"%y = igamma(%x, %x)\nreturn %y",
       {},
       Code::unsupported,
       "no op computes the derivative of igamma by operand 0"},
      {"%y = neg(%x)\nreturn %y", {.targets = std::vector{1}}, Code::invalid, "there is no output 1 among 1"},
      {"%y = neg(%x)\nreturn %y", {.wrt = std::vector{-1}}, Code::invalid, "there is no input -1 among 2"},
      {"%y = neg(%x)\nreturn %y",
       {.wrt = std::vector{1}},
       Code::invalid,
       "%i is i64[2]; only floats have gradients"},
      {"%y = neg(%i)\nreturn %y", {.targets = std::vector{0}}, Code::invalid, "the target %y is i64[2]"},
  };
  for (const auto& one : cases) {
    const Graph graph = parsed("graph @g(%x: f64[2], %i: i64[2]) {\n" + std::string(one.text) + "\n}");
    const auto made = gradient(graph, one.options);
    ASSERT_FALSE(made.ok()) << one.message;
    EXPECT_EQ(made.status().code(), one.code);
    EXPECT_NE(made.status().message().find(one.message), std::string::npos) << made.status().message();
  }
}

TEST(Gradient, NamesHeadsAfterTheirTargets) {
  const Graph graph =
      parsed("graph @g(%x: f64[2], %d_y: f64[2]) {\n%y = mul(%x, %d_y)\n%z = exp(%y)\nreturn %y, %z\n}");
  const auto made = gradient(graph, {.heads = true, .keep_outputs = true});
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->inputs.size(), 4u);
  EXPECT_EQ(made->value_name(made->inputs[2].value), "%d_y_2");
  EXPECT_EQ(made->value_name(made->inputs[3].value), "%d_z");
  EXPECT_EQ(made->outputs.size(), 4u);
}

}  // namespace
}  // namespace tenon
