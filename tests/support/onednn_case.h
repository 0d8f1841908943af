// Compares calls of the oneDNN back end with the evaluator. Every case states what explain() must show, so that a case that the
// library does not run fails.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/run_help.h"

namespace tenon {

struct OneDnnCase {
  const char* name;
  const char* text;
  std::vector<std::vector<int64_t>> shapes;
  const char* shows;             // a part of explain()
  std::vector<int> frozen = {};  // inputs that are params
};

struct OneDnnRun {
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

inline void make(const OneDnnCase& c, OneDnnRun& ran) {
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

inline void check(const OneDnnCase& c) {
  SCOPED_TRACE(c.name);
  OneDnnRun ran;
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

}  // namespace tenon
