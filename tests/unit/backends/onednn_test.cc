// Checks all kinds of calls of the oneDNN back end: extreme numbers, strides of the host, plans of many sizes, memory of weights and
// primitives, threads.
#include <atomic>
#include <cstdlib>
#include <limits>
#include <thread>

#include "tests/support/onednn_case.h"

namespace tenon {
namespace {

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
    OneDnnRun ran;
    make({"", text.c_str(), {{5, 8}, {8, 40}}, ""}, ran);
    ASSERT_FALSE(HasFatalFailure());
    ran.inputs[0].set(3, {std::numeric_limits<double>::quiet_NaN(), 0});
    ran.run();
    for (int64_t i = 0; i < 200; ++i)
      ASSERT_EQ(std::isnan(ran.outputs[0].number(i)), i < 40) << i << ran.program->explain(false);
  }
  OneDnnRun ran;
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

// The mean of everything has no axis for the bias of a product or a convolution in bf16.
TEST(OneDnn, AMeanBehindABias) {
  for (const char* text :
       {"graph @f(%a: bf16[N,8], %w: bf16[6,8], %b: bf16[6]) {\n  %y = linear(%a, %w, %b)\n  %m = "
        "mean(%y){axes=[]}\n"
        "  return %m\n}",
        "graph @f(%a: bf16[N,8,1,1], %w: bf16[6,8,1,1], %b: bf16[6]) {\n  %y = convolution(%a, %w, %b)"
        "{strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1]}\n  %m = mean(%y){axes=[]}\n  "
        "return "
        "%m\n}"}) {
    auto graph = parse_graph(text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const bool is_product = graph->type(graph->inputs[0].value).rank() == 2;
    const std::vector<int64_t> rows{5, 8}, matrix{6, 8}, image{5, 8, 1, 1}, weights{6, 8, 1, 1};
    HostTensor a = random_tensor(DType::bf16, is_product ? rows : image, 1),
               w = random_tensor(DType::bf16, is_product ? matrix : weights, 2),
               b = random_tensor(DType::bf16, {6}, 3), m(DType::bf16, {});
    auto program = Program::make(*graph, {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const std::vector<Tensor> in{tensor_of(a), tensor_of(w), tensor_of(b)}, out{tensor_of(m)};
    const Status status = (*program)->run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    double want = 0;
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 6; ++j) {
        want += b.number(j) / 30;
        for (int64_t k = 0; k < 8; ++k) want += a.number(i * 8 + k) * w.number(j * 8 + k) / 30;
      }
    EXPECT_NEAR(m.number(0), want, 0.02) << text;
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
  const OneDnnCase c = {"",
                        R"(graph @f(%a: f32[N,K], %w: f32[M,K] param, %c: f32[M] param, %r: f32[N,M]) {
    %s = linear(%a, %w, %c)
    %g = gelu(%s)
    %y = add(%g, %r)
    return %y
  })",
                        {{33, 64}, {96, 64}, {96}, {33, 96}},
                        "",
                        {1, 2}};
  OneDnnRun first;
  make(c, first);
  ASSERT_FALSE(HasFatalFailure());
  std::vector<OneDnnRun> each(4, first);
  std::vector<std::thread> threads;
  for (OneDnnRun& r : each)
    threads.emplace_back([&r] {
      for (int i = 0; i < 50; ++i) r.run();
    });
  for (std::thread& t : threads) t.join();
  for (const OneDnnRun& r : each) r.compare();
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

}  // namespace
}  // namespace tenon
