// Compares the back end of the row recurrent with the evaluator: modes, directions, projections, sizes around those of panels and
// tiles, symbolic sizes, weights that are frozen or not, strided operands and results, several threads.
#include "backends/recurrent/recurrent.h"

#include "src/passes/passes.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

struct Layer {
  std::string mode;
  int64_t steps = 3, batch = 2, size = 5;
  int64_t projected = 0;  // 0: no projection
  bool reverse = false, cell = false, frozen = false, symbolic = false;
  bool starts_at_zero = false;  // an LSTM without the operand of the cell
  int64_t gates() const { return mode == "lstm" ? 4 : mode == "gru" ? 3 : 1; }
  int64_t width() const { return projected > 0 ? projected : size; }
};

std::string sizes_of(std::vector<int64_t> shape) {
  std::string text;
  for (int64_t n : shape) text += (text.empty() ? "" : ",") + std::to_string(n);
  return "[" + text + "]";
}

struct Case {
  std::string text;
  std::vector<HostTensor> inputs;
};

// The graph of one layer. extra: strides of the first input and of the result, with their keyword.
Case case_of(const Layer& l, const std::string& x_strides = "", const std::string& y_strides = "") {
  const int64_t rows = l.gates() * l.size;
  const std::string param = l.frozen ? " param" : "", tail = l.symbolic ? "," + std::to_string(rows) : "";
  Case c;
  auto operand = [&](std::vector<int64_t> shape, double scale) {
    HostTensor t = random_tensor(DType::f32, shape, static_cast<uint32_t>(c.inputs.size()) + 1);
    for (int64_t i = 0; i < t.count(); ++i) t.set_number(i, t.number(i) * scale);
    c.inputs.push_back(std::move(t));
    return "f32" + sizes_of(std::move(shape));
  };
  const double scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(l.size, 1)));
  std::string x = operand({l.steps, l.batch, rows}, 1), h = operand({l.batch, l.width()}, 1);
  if (l.symbolic) {
    x = "f32[T,B" + tail + "]";
    h = "f32[B," + std::to_string(l.width()) + "]";
  }
  const std::string w = operand({rows, l.width()}, scale) + param, b = operand({rows}, 1) + param;
  c.text = "graph @g(%x: " + x + x_strides + ", %h: " + h + ", %w: " + w + ", %b: " + b;
  std::string operands = "%x, %h, %w, %b";
  if (l.mode == "lstm" && !l.starts_at_zero) {
    const std::string cell = operand({l.batch, l.size}, 1);
    c.text += ", %c: " + (l.symbolic ? "f32[B," + std::to_string(l.size) + "]" : cell);
    operands += ", %c";
  }
  if (l.projected > 0) {
    c.text += ", %p: " + operand({l.projected, l.size}, scale) + param;
    operands += ", %p";
  }
  c.text += ") {\n  %y = recurrent(" + operands + "){mode=\"" + l.mode +
            "\", reverse=" + (l.reverse ? "true" : "false") + ", cell=" + (l.cell ? "true" : "false") +
            "}\n  return %y" + y_strides + "\n}\n";
  return c;
}

void check(const Layer& l, int threads = 2, const std::string& x_strides = "",
           const std::string& y_strides = "") {
  Case c = case_of(l);
  SCOPED_TRACE(c.text);
  auto graph = parse_graph(c.text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto expected = evaluate(*graph, c.inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  graph = parse_graph(case_of(l, x_strides, y_strides).text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ProgramOptions options;
  options.threads = threads;
  options.freeze = l.frozen;
  std::vector<Tensor> in, params;
  for (HostTensor& t : c.inputs) in.push_back(tensor_of(t));
  for (size_t i = 0; i < in.size(); ++i)
    params.push_back(l.frozen && graph->inputs[i].param ? in[i] : Tensor{});
  auto program = Program::make(*graph, options, l.frozen ? params : std::vector<Tensor>());
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->stats().reference_steps, 0) << (*program)->explain(false);
  std::vector<HostTensor> outputs = blank_like(*expected);
  // A strided tensor holds the same elements with the first two axes swapped.
  auto swapped = [](const HostTensor& t) {
    HostTensor s = t;
    const int64_t a = t.shape[0], b = t.shape[1], n = t.shape[2];
    for (int64_t i = 0; i < a; ++i)
      for (int64_t j = 0; j < b; ++j)
        for (int64_t k = 0; k < n; ++k) s.set((j * a + i) * n + k, t.get((i * b + j) * n + k));
    return s;
  };
  const auto swapped_strides = [](const HostTensor& t) {
    return std::vector<int64_t>{t.shape[2], t.shape[0] * t.shape[2], 1};
  };
  HostTensor x = c.inputs[0];
  std::vector<Tensor> out = {tensor_of(outputs[0])};
  std::vector<int64_t> of_x, of_y;
  if (!x_strides.empty()) {
    of_x = swapped_strides(x);
    x = swapped(x);
    in[0].data = x.bytes.data();
    in[0].strides = of_x;
  }
  if (!y_strides.empty()) out[0].strides = of_y = swapped_strides(outputs[0]);
  const Status status = (*program)->run(in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const HostTensor wanted = y_strides.empty() ? (*expected)[0] : swapped((*expected)[0]);
  for (int64_t i = 0; i < wanted.count(); ++i)
    ASSERT_NEAR(outputs[0].number(i), wanted.number(i), 3e-5 * (1 + std::abs(wanted.number(i))))
        << "element " << i;
}

TEST(Recurrent, ModesDirectionsAndSizes) {
  for (const char* mode : {"lstm", "gru", "tanh", "relu"})
    for (const int64_t size : {1, 5, 32, 33, 100})
      for (const int64_t batch : {1, 2, 13})
        for (const bool reverse : {false, true}) {
          Layer l{mode, reverse ? 2 : 6, batch, size};
          l.reverse = reverse;
          l.frozen = batch % 2 == 0;
          l.symbolic = size % 2 == 1;
          check(l);
        }
}

TEST(Recurrent, CellsAndProjections) {
  for (const int64_t projected : {0, 1, 3, 32, 40})
    for (const bool cell : {false, true})
      for (const bool frozen : {false, true}) {
        Layer l{"lstm", 5, 3, 41, projected};
        l.cell = cell;
        l.frozen = frozen;
        check(l);
        l.symbolic = l.reverse = true;
        check(l, 1);
      }
}

TEST(Recurrent, FewStepsAndEmptyBatches) {
  for (const char* mode : {"lstm", "gru", "relu"})
    for (const int64_t steps : {0, 1, 2})
      for (const int64_t batch : {0, 1}) {
        Layer l{mode, steps, batch, 6};
        l.cell = l.mode == "lstm";
        check(l);
        l.starts_at_zero = true;
        check(l);
      }
}

TEST(Recurrent, StridedInputAndResult) {
  for (const char* mode : {"lstm", "gru", "tanh"}) {
    Layer l{mode, 7, 3, 12};
    const int64_t rows = l.gates() * l.size;
    const std::string x = " strides=" + sizes_of({rows, l.steps * rows, 1}),
                      y = " strides=" + sizes_of({l.size, l.steps * l.size, 1});
    check(l, 2, x);
    check(l, 2, "", y);
    check(l, 2, x, y);
  }
}

TEST(Recurrent, CellsInAStridedVector) {
  for (const int64_t stride : {2, 3})
    for (const int64_t width : {1, 12})
      for (const int64_t batch : {1, 3}) {
        Layer l{"lstm", 4, batch, width};
        l.cell = true;
        Case c = case_of(l, "", " strides=" + sizes_of({stride}));
        SCOPED_TRACE(c.text);
        auto expected = evaluate(*parse_graph(case_of(l).text), c.inputs);
        ASSERT_TRUE(expected.ok()) << expected.status().message();
        auto graph = parse_graph(c.text);
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        auto program = Program::make(*graph, {}, {});
        ASSERT_TRUE(program.ok()) << program.status().message();
        std::vector<Tensor> in;
        for (HostTensor& t : c.inputs) in.push_back(tensor_of(t));
        const HostTensor& wanted = (*expected)[0];
        std::vector<float> y(static_cast<size_t>(wanted.count() * stride), -7);
        const Tensor result{y.data(), DType::f32, wanted.shape, std::span(&stride, 1)};
        const Status status = (*program)->run(in, std::span(&result, 1));
        ASSERT_TRUE(status.ok()) << status.message();
        for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i)
          ASSERT_NEAR(y[static_cast<size_t>(i)], i % stride ? -7 : wanted.number(i / stride), 1e-4) << i;
      }
}

TEST(Recurrent, ManyThreadsShareTheUnits) {
  for (const char* mode : {"lstm", "gru"}) {
    Layer l{mode, 3, 14, 200};
    for (const int threads : {1, 2, 3, 7}) check(l, threads);
    if (l.mode == "lstm") l.projected = 70;
    for (const int threads : {1, 2, 3, 7}) check(l, threads);
  }
}

// A short layer has a body, which other dtypes and other back ends run.
TEST(Recurrent, TheBodyIsTheSameLayer) {
  for (const char* mode : {"lstm", "gru", "tanh", "relu"})
    for (const char* dtype : {"f32", "f64", "bf16"})
      for (const int64_t steps : {0, 1, 3, 4}) {
        Layer l{mode, steps, 3, 6};
        const bool lstm = l.mode == "lstm";
        l.projected = lstm && steps == 4 ? 2 : 0;
        l.reverse = steps == 3;
        l.starts_at_zero = lstm && steps == 1;
        l.cell = lstm && steps != 3;
        Case c = case_of(l);
        for (size_t at; (at = c.text.find("f32")) != std::string::npos && dtype != std::string("f32");)
          c.text.replace(at, 3, dtype);
        SCOPED_TRACE(c.text);
        const auto graph = parse_graph(c.text);
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        std::vector<Tensor> in;
        for (size_t i = 0; i < c.inputs.size(); ++i) {
          HostTensor t(graph->type(graph->inputs[i].value).dtype, c.inputs[i].shape);
          for (int64_t k = 0; k < t.count(); ++k) t.set_number(k, c.inputs[i].number(k));
          c.inputs[i] = std::move(t);
        }
        for (HostTensor& t : c.inputs) in.push_back(tensor_of(t));
        const auto expected = evaluate(*graph, c.inputs);
        ASSERT_TRUE(expected.ok()) << expected.status().message();
        ProgramOptions options;
        options.backends = {"cpu"};
        const auto program = Program::make(*graph, options, {});
        ASSERT_TRUE(program.ok()) << program.status().message();
        EXPECT_EQ((*program)->stats().reference_steps, 0);
        std::vector<HostTensor> results = blank_like(*expected);
        const std::vector<Tensor> out = {tensor_of(results[0])};
        const Status status = (*program)->run(in, out);
        ASSERT_TRUE(status.ok()) << status.message();
        const double bound = dtype == std::string("bf16") ? 2e-2 : 3e-5;
        for (int64_t i = 0; i < results[0].count(); ++i)
          ASSERT_NEAR(results[0].number(i), (*expected)[0].number(i), bound) << "element " << i;
      }
}

TEST(Recurrent, LongAndSymbolicSequencesHaveNoBody) {
  for (const bool symbolic : {false, true}) {
    Layer l{"tanh", symbolic ? 3 : 1025, 1, 2};
    l.symbolic = symbolic;
    const auto graph = parse_graph(case_of(l).text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(print(expand(*graph, [](const Graph&, ValueId) { return false; })), print(*graph));
  }
}

TEST(Recurrent, RefusesOperandsThatDoNotFit) {
  for (const char* bad : {"mode=\"elman\"", "mode=\"lstm\"", "mode=\"gru\", cell=true", "mode=\"tanh\""}) {
    auto graph = parse_graph(
        "graph @g(%x: f32[3,2,12], %h: f32[2,4], %w: f32[12,4], %b: f32[12]) {\n  %y = recurrent(%x, %h, %w, "
        "%b){" +
        std::string(bad) + "}\n  return %y\n}\n");
    EXPECT_FALSE(graph.ok()) << bad;
  }
}

}  // namespace
}  // namespace tenon
