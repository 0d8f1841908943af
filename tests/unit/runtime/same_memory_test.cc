// An intermediate that an output views as it lies is written to the output's memory.
#include "src/runtime/compile/same_memory.h"

#include "tests/support/run_help.h"

namespace tenon {
namespace {

// A result in channels_last that later nodes read too, as the host's image in channels_first with these strides.
std::string image(const std::string& view, const std::string& strides) {
  return "graph @f(%x: f32[N,6,8], %w: f32[8,8]) {\n  %a = matmul(%x, %w)\n  %y = " + view +
         "\n  %z = exp(%a)\n  return %y" + strides + ", %z\n}";
}
const std::string kTranspose = "transpose(%a){perm=[0,2,1]}";

struct Ran {
  std::string explained;
  std::vector<HostTensor> inputs, outputs;
};

Ran run_text(const std::string& text, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  Ran ran{{}, {random_tensor(DType::f32, {3, 6, 8}, 1), random_tensor(DType::f32, {8, 8}, 2)}, {}};
  ran.outputs = {HostTensor(DType::f32, {3, 6, 8}), HostTensor(DType::f32, {3, 6, 8})};
  auto program = Program::make(*graph, {}, {});
  TENON_CHECK(program.ok(), program.status().message());
  std::vector<Tensor> in{tensor_of(ran.inputs[0]), tensor_of(ran.inputs[1])};
  std::vector<Tensor> out{tensor_of(ran.outputs[0]), tensor_of(ran.outputs[1])};
  out[0].shape = std::move(shape);
  out[0].strides = std::move(strides);
  const Status status = (*program)->run(in, out);
  TENON_CHECK(status.ok(), status.message());
  ran.explained = (*program)->explain(false);
  return ran;
}

bool is_shared(const Ran& ran) { return ran.explained.find("nothing: ") != std::string::npos; }

// Both outputs are in the order of %a.
void expect_right(const Ran& ran) {
  for (int64_t i = 0; i < ran.inputs[0].count(); ++i) {
    double sum = 0;
    for (int64_t k = 0; k < 8; ++k)
      sum += ran.inputs[0].number(i / 8 * 8 + k) * ran.inputs[1].number(k * 8 + i % 8);
    EXPECT_NEAR(ran.outputs[0].number(i), sum, 1e-4) << i;
    EXPECT_NEAR(ran.outputs[1].number(i), std::exp(sum), 1e-4 * std::exp(sum)) << i;
  }
}

TEST(SameMemory, ATransposeWithTheStridesOfTheIntermediate) {
  const Ran ran = run_text(image(kTranspose, " strides=[48,1,8]"), {3, 8, 6}, {48, 1, 8});
  EXPECT_TRUE(is_shared(ran)) << ran.explained;
  expect_right(ran);
}

TEST(SameMemory, AReshape) {
  const Ran ran = run_text(image("reshape(%a){shape=[N,48]}", ""), {3, 48}, {48, 1});
  EXPECT_TRUE(is_shared(ran)) << ran.explained;
  expect_right(ran);
}

TEST(SameMemory, OtherViewsAreCopied) {
  EXPECT_FALSE(is_shared(run_text(image(kTranspose, ""), {3, 8, 6}, {48, 6, 1})));
  EXPECT_FALSE(is_shared(run_text(image("flip(%a){axes=[2]}", ""), {3, 6, 8}, {48, 8, 1})));
  EXPECT_FALSE(
      is_shared(run_text(image("slice(%a){axis=2, start=0, end=4, step=1}", ""), {3, 6, 4}, {24, 4, 1})));
}

}  // namespace
}  // namespace tenon
