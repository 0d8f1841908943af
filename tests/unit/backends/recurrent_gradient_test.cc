// Compares the row recurrent_gradient of the back end recurrent with the evaluator: modes, directions, sizes around those of panels,
// symbolic sizes, frozen weights, strided operands and results, several threads.
#include "src/ir/text.h"
#include "tests/support/graph_check.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

struct Layer {
  std::string mode;
  int64_t steps = 3, batch = 2, size = 5;
  bool reverse = false, last_cell = true, frozen = false, symbolic = false;
  // Which operands and whether the result have other strides than row-major ones.
  bool swapped_x = false, swapped_y = false, sparse = false, strided_result = false;
  int64_t gates() const { return mode == "lstm" ? 4 : mode == "gru" ? 3 : 1; }
};

std::string list_of(std::initializer_list<std::string> words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "[" : ",") + word;
  return text + "]";
}

// The graph of a layer's gradient, and inputs for it.
struct Case {
  std::string text;
  std::vector<HostTensor> inputs;
};

Case case_of(const Layer& l) {
  Case c;
  const auto n = [](int64_t size) { return std::to_string(size); };
  const int64_t rows = l.gates() * l.size;
  const std::string steps = l.symbolic ? "T" : n(l.steps), batch = l.symbolic ? "B" : n(l.batch);
  std::string inputs, names;
  const auto add = [&](const std::string& name, const std::string& type, std::vector<int64_t> shape,
                       double scale, const std::string& strides = "") {
    HostTensor t = random_tensor(DType::f32, shape, static_cast<uint32_t>(c.inputs.size()) + 7);
    for (int64_t i = 0; i < t.count(); ++i) t.set_number(i, t.number(i) * scale);
    c.inputs.push_back(std::move(t));
    const bool first = inputs.empty();
    inputs += (first ? "%" : ", %") + name + ": f32" + type + (strides.empty() ? "" : " strides=" + strides);
    names += (first ? "%" : ", %") + name;
  };
  const auto sequence = [&](const std::string& name, int64_t width, bool swapped) {
    const int64_t unit = l.sparse ? 2 : 1;
    std::string strides;
    if (swapped)
      strides = list_of({n(unit * width), n(unit * l.steps * width), n(unit)});
    else if (l.sparse)
      strides = list_of({n(unit * l.batch * width), n(unit * width), n(unit)});
    add(name, list_of({steps, batch, n(width)}), {l.steps, l.batch, width}, 1, strides);
  };
  const auto state = [&](const std::string& name) {
    add(name, list_of({batch, n(l.size)}), {l.batch, l.size}, 1);
  };
  sequence("y", l.size, l.swapped_y);
  sequence("dy", l.size, l.swapped_x);
  state("h");
  add("w", list_of({n(rows), n(l.size)}), {rows, l.size}, 0.3 / std::sqrt(static_cast<double>(l.size + 1)));
  if (l.frozen) inputs += " param";
  if (l.gates() > 1) {
    sequence("x", rows, l.swapped_x);
    sequence("s", rows, false);
  }
  if (l.gates() == 4) state("c");
  if (l.gates() == 4 && l.last_cell) state("dc");
  c.text = "graph @g(" + inputs + ") {\n  %d = recurrent_gradient(" + names + "){mode=\"" + l.mode +
           "\", reverse=" + (l.reverse ? "true" : "false") + "}\n  return %d" +
           (l.strided_result ? " strides=[3]" : "") + "\n}\n";
  return c;
}

void check(const Layer& l, int threads = 2) {
  Case c = case_of(l);
  SCOPED_TRACE(c.text);
  const auto graph = parse_graph(c.text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ProgramOptions options;
  options.threads = threads;
  std::vector<bool> frozen(c.inputs.size(), false);
  frozen[3] = l.frozen;
  const CheckResult result = check_program(*graph, c.inputs, frozen, options);
  EXPECT_EQ(result.kind, CheckResult::right) << result.message;
  EXPECT_EQ(result.says_nothing, 0);
}

TEST(RecurrentGradient, ModesDirectionsAndSizes) {
  for (const char* mode : {"lstm", "gru", "tanh", "relu"})
    for (const int64_t size : {1, 5, 32, 33, 100})
      for (const int64_t batch : {1, 2, 13})
        for (const bool reverse : {false, true}) {
          Layer l{mode, reverse ? 2 : 6, batch, size};
          l.reverse = reverse;
          l.last_cell = batch != 2;
          l.frozen = batch % 2 == 0;
          l.symbolic = size % 2 == 1;
          check(l);
        }
}

TEST(RecurrentGradient, FewStepsAndEmptyBatches) {
  for (const char* mode : {"lstm", "gru", "tanh", "relu"})
    for (const int64_t steps : {0, 1, 2})
      for (const int64_t batch : {0, 1}) check({mode, steps, batch, 6});
}

TEST(RecurrentGradient, StridedOperandsAndResults) {
  for (const char* mode : {"lstm", "gru", "tanh", "relu"})
    for (int i = 1; i < 16; ++i) {
      Layer l{mode, 7, 3, 12};
      l.reverse = i % 2;
      l.swapped_x = i & 1;
      l.swapped_y = i & 2;
      l.sparse = i & 4;
      l.strided_result = i & 8;
      check(l);
    }
}

TEST(RecurrentGradient, ThreadsShareTheUnits) {
  for (const char* mode : {"lstm", "gru", "relu"})
    for (const int threads : {1, 2, 3, 7}) check({mode, 3, 14, 200}, threads);
}

// One bit of difference between threads would be another sum.
TEST(RecurrentGradient, IsTheSameOnAnyNumberOfThreads) {
  for (const char* mode : {"lstm", "gru", "tanh"}) {
    Case c = case_of({mode, 5, 9, 130});
    std::vector<std::vector<HostTensor>> found;
    for (const int threads : {1, 2, 5}) {
      const auto expected = evaluate(*parse_graph(c.text), c.inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      found.push_back(blank_like(*expected));
      const Status status = run(*program_of(c.text, threads), c.inputs, found.back());
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(found.back()[0].bytes, found.front()[0].bytes) << mode << ", threads " << threads;
    }
  }
}

TEST(RecurrentGradient, RefusesOperandsThatDoNotFit) {
  const std::string head =
      "graph @g(%y: f32[3,2,4], %h: f32[2,4], %w: f32[12,4], %x: f32[3,2,12]) {\n  %d = recurrent_gradient(";
  for (const char* bad : {"%y, %y, %h, %w){mode=\"gru\"", "%y, %y, %h, %w, %x, %x, %h){mode=\"gru\"",
                          "%y, %y, %h, %w, %x, %x){mode=\"lstm\"", "%y, %y, %h, %w, %x, %x){mode=\"tanh\"",
                          "%y, %y, %h, %w, %x, %y){mode=\"gru\"", "%y, %y, %y, %w, %x, %x){mode=\"gru\"",
                          "%y, %y, %h, %w, %x, %x){mode=\"elman\""}) {
    const auto graph = parse_graph(head + bad + "}\n  return %d\n}\n");
    EXPECT_FALSE(graph.ok()) << bad;
  }
  const auto good = parse_graph(head + "%y, %y, %h, %w, %x, %x){mode=\"gru\"}\n  return %d\n}\n");
  EXPECT_TRUE(good.ok()) << good.status().message();
}

}  // namespace
}  // namespace tenon
