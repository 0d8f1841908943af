// A program's results are the same bits at any number of threads. The sizes are large enough for several threads to take part.
// oneDNN's gradients of convolution weights, and its products without AVX-512, are exceptions: each thread computes a part of every sum.
#include "src/backend/host_threads.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

struct Case {
  const char* name;
  const char* text;
  std::vector<std::vector<int64_t>> shapes;  // of the inputs; integers are indices of at most 4
};

const Case kCases[] = {
    {"row_sums", "(%x: f32[N,M]) {\n  %y = sum(%x){axes=[1]}\n", {{300, 1031}}},
    {"one_row", "(%x: f32[N,M]) {\n  %y = sum(%x){axes=[1]}\n", {{1, 700001}}},
    {"column_sums", "(%x: f32[N,M]) {\n  %y = sum(%x){axes=[0]}\n", {{5003, 67}}},
    {"few_columns", "(%x: f32[N,M]) {\n  %y = sum(%x){axes=[0]}\n", {{200003, 3}}},
    {"all", "(%x: f32[N,M]) {\n  %y = sum(%x){axes=[0,1]}\n", {{517, 1031}}},
    {"var", "(%x: bf16[N,M]) {\n  %y = var(%x){axes=[0]}\n", {{3001, 131}}},
    {"channels", "(%x: f32[N,C,H,W]) {\n  %e = exp(%x)\n  %y = mean(%e){axes=[0,2,3]}\n", {{9, 33, 31, 29}}},
    {"softmax", "(%x: f32[N,M]) {\n  %y = softmax(%x){axis=1}\n", {{3, 120001}}},
    {"layer_norm",
     "(%x: f32[N,M], %g: f32[M], %b: f32[M]) {\n  %y = layer_norm(%x, %g, %b){axes_count=1, eps=1e-05}\n",
     {{301, 1029}, {1029}, {1029}}},
    {"cumsum", "(%x: f32[N,M]) {\n  %y = cumsum(%x){axis=0}\n", {{3001, 131}}},
    {"scatter",
     "(%x: f32[5,M], %i: i64[N], %u: f32[N,M]) {\n  %y = index_put(%x, %i, %u){axis=0, mode=\"add\"}\n",
     {{5, 1031}, {401}, {401, 1031}}},
    {"convolution",
     "(%x: f32[N,16,H,W], %w: f32[24,16,3,3]) {\n  %y = convolution(%x, %w){strides=[2,1], padding=[1,1], "
     "padding_high=[1,1], dilations=[1,1]}\n",
     {{3, 16, 41, 39}, {24, 16, 3, 3}}},
    {"depthwise_weight_gradient",
     "(%x: f32[N,32,H,W], %d: f32[N,32,H,W]) {\n  %y = convolution_weight_gradient(%x, %d){kernel=[5,5], "
     "strides=[1,1], padding=[2,2], padding_high=[2,2], dilations=[1,1], groups=32}\n",
     {{5, 32, 41, 39}, {5, 32, 41, 39}}},
    {"attention",
     "(%q: f32[N,4,S,32], %k: f32[N,4,S,32], %v: f32[N,4,S,32]) {\n  %y = attention(%q, %k, %v){scale=0.2}\n",
     {{2, 4, 131, 32}, {2, 4, 131, 32}, {2, 4, 131, 32}}},
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class SameBits : public testing::TestWithParam<Case> {};

TEST_P(SameBits, AtAnyNumberOfThreads) {
  auto graph = parse_graph("graph @f" + std::string(GetParam().text) + "  return %y\n}");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::vector<HostTensor> inputs;
  std::vector<std::vector<int64_t>> shapes = GetParam().shapes;
  for (size_t i = 0; i < shapes.size(); ++i)
    inputs.push_back(random_tensor(graph->type(graph->inputs[i].value).dtype, shapes[i], 7 + i));
  auto symbols = solve_symbols(*graph, shapes, [](size_t) { return 0; });
  ASSERT_TRUE(symbols.ok()) << symbols.status().message();
  const TensorType& type = graph->type(graph->outputs[0].value);
  std::vector<int64_t> shape;
  for (Dim d : type.shape) shape.push_back(*graph->dims->eval(d, *symbols));
  std::vector<HostTensor> first;
  for (const int threads : {1, 2, 3, 4}) {
    set_host_threads(threads);  // for libraries
    ProgramOptions options;
    options.threads = threads;
    auto program = Program::make(*graph, options, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    std::vector<HostTensor> results = blank_like({HostTensor(type.dtype, shape)});
    const Status status = run(**program, inputs, results);
    ASSERT_TRUE(status.ok()) << status.message();
    if (first.empty()) first = results;
    EXPECT_TRUE(results[0].bytes == first[0].bytes) << threads << " threads\n" << (*program)->explain(false);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SameBits, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tenon
