// Which reductions run in parts (schedule.h), and that parts keep errors small.
#include "jit/split.h"

#include <gtest/gtest.h>

#include "jit/schedule.h"
#include "tests/run_help.h"

namespace tenon {
namespace {

using jit::reduction_part;

TEST(ReductionPart, FewRowsOfManyElements) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  EXPECT_GT(reduction_part({}, n, false), 0);  // all of any size
  EXPECT_GT(reduction_part({Dim(2), Dim(4)}, n, false), 0);
  EXPECT_EQ(reduction_part({n}, n, false), 0);  // as many rows as there are, one each
  EXPECT_EQ(reduction_part({Dim(4096)}, Dim(1024), false), 0);
  EXPECT_EQ(reduction_part({Dim(2)}, Dim(1024), false), 0);  // too little for two
  EXPECT_GT(reduction_part({Dim(4096)}, Dim(1 << 20), false),
            0);  // in one chain of additions errors would grow
}

TEST(ReductionPart, ColumnsOfManyRows) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  EXPECT_GT(reduction_part({n}, n, true), 0);
  EXPECT_GT(reduction_part({Dim(3)}, Dim(100000), true), 0);
  EXPECT_EQ(reduction_part({n}, Dim(512), true), 0);
  EXPECT_EQ(reduction_part({}, n, true) % jit::kRowsPerBlock, 0);
}

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
