// Reductions in parts keep errors small. Which reductions run so: tests/schedule_test.cc; that they are right: run_test.cc.
#include "jit/split.h"

#include <gtest/gtest.h>

#include "tests/run_help.h"

namespace tenon {
namespace {

double error_of(const char* text, const std::vector<int64_t>& shape) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  std::vector<HostTensor> inputs{HostTensor(DType::f32, shape)}, outputs{HostTensor(DType::f32, {1})};
  double exact = 0;
  for (int64_t i = 0; i < inputs[0].count(); ++i) {
    const float x = 0.1f + static_cast<float>(i % 7) * 0.01f;
    inputs[0].set_number(i, x);
    exact += x;
  }
  auto program = Program::make(*graph, {}, {});
  TENON_CHECK(program.ok(), program.status().message());
  std::vector<Tensor> in{tensor_of(inputs[0])}, out{tensor_of(outputs[0])};
  TENON_CHECK((*program)->run(in, out).ok(), "runs");
  return std::abs(outputs[0].number(0) / exact - 1);
}

TEST(SplitReduction, ErrorsDoNotGrowWithTheLength) {
  EXPECT_LT(
      error_of("graph @f(%x: f32[N]) {\n %y = sum(%x){axes=[0], keepdims=true}\n return %y\n}", {4000000}),
      5e-7);
  EXPECT_LT(error_of("graph @f(%x: f32[N,1]) {\n %y = sum(%x){axes=[0]}\n return %y\n}", {1000000, 1}), 5e-7);
}

}  // namespace
}  // namespace tenon
