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

// The kernel of %a stores it once, for the product and as the first output.
TEST(SameMemory, ACopyInTheGroupOfItsIntermediate) {
  const Ran ran = run_text(
      "graph @f(%x: f32[N,6,8], %w: f32[8,8]) {\n  %a = mul(%x, %x)\n  %y = transpose(%a){perm=[0,2,1]}\n"
      "  %z = matmul(%a, %w)\n  return %y strides=[48,1,8], %z\n}",
      {3, 8, 6}, {48, 1, 8});
  EXPECT_TRUE(is_shared(ran)) << ran.explained;
  const HostTensor &x = ran.inputs[0], &w = ran.inputs[1];
  for (int64_t i = 0; i < x.count(); ++i) {
    EXPECT_FLOAT_EQ(ran.outputs[0].number(i), std::pow(x.number(i), 2)) << i;
    double sum = 0;
    for (int64_t k = 0; k < 8; ++k) sum += std::pow(x.number(i / 8 * 8 + k), 2) * w.number(k * 8 + i % 8);
    EXPECT_NEAR(ran.outputs[1].number(i), sum, 1e-4) << i;
  }
}

// Adds a row of 5 to row 1 of a product of ones and twos, twice. Returns the bytes of the workspace. more: a line that may read the product, %p.
int64_t workspace_of_sum(const std::string& strides, std::vector<int64_t> of_tensor,
                         const std::string& more = "") {
  auto graph = parse_graph(
      "graph @f(%x: f32[3,8], %w: f32[8,8], %i: i64[2], %u: f32[2,8]) {\n  %p = matmul(%x, %w)\n" + more +
      "  %y = index_put(%p, %i, %u){axis=0, mode=\"add\"}\n  return %y" + strides +
      (more.empty() ? "" : ", %z") + "\n}");
  TENON_CHECK(graph.ok(), graph.status().message());
  std::vector<HostTensor> inputs{
      {DType::f32, {3, 8}}, {DType::f32, {8, 8}}, {DType::i64, {2}}, {DType::f32, {2, 8}}};
  for (size_t n = 0; n < inputs.size(); ++n)
    for (int64_t k = 0; k < inputs[n].count(); ++k) inputs[n].set_number(k, std::vector{1, 2, 1, 5}[n]);
  HostTensor y(DType::f32, {3, 8}), z(DType::f32, {3, 8});
  auto program = Program::make(*graph, {}, {});
  TENON_CHECK(program.ok(), program.status().message());
  std::vector<Tensor> in, out{tensor_of(y)};
  for (HostTensor& t : inputs) in.push_back(tensor_of(t));
  out[0].strides = of_tensor;
  if (!more.empty()) out.push_back(tensor_of(z));
  const Status status = (*program)->run(in, out);
  TENON_CHECK(status.ok(), status.message());
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t k = 0; k < 8; ++k)
      EXPECT_EQ(y.number(row * of_tensor[0] + k * of_tensor[1]), row == 1 ? 26 : 16) << row << " " << k;
  for (int64_t k = 0; k < 24 && !more.empty(); ++k) EXPECT_EQ(z.number(k), -16) << k;
  return (*program)->stats().workspace_bytes;
}

TEST(SameMemory, RowsAreAddedToAProductInTheOutput) {
  const int64_t shared = workspace_of_sum("", {8, 1});
  EXPECT_LE(shared + 96, workspace_of_sum(" strides=[1,3]", {1, 3}));
  EXPECT_LE(shared + 96, workspace_of_sum("", {8, 1}, "  %z = neg(%p)\n"));
}

}  // namespace
}  // namespace tenon
