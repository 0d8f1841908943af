// Programs that are wrong on purpose: the difference is found and reduced, and its cause is named.
#include "src/runtime/difference.h"

#include <stdexcept>

#include "src/ops/rules/rules.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

// Registers a row whose columns contradict each other, so that its kernels are wrong.
void plant() {
  static const bool once = [] {
    const Op& sub = op(*find_op("sub"));
    Op off = sub;  // machine code adds where the evaluator subtracts
    off.name = "planted_sub";
    off.llvm = op(*find_op("add")).llvm;
    auto id = register_op(off);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return true;
  }();
  (void)once;
}

std::optional<Difference> find(const char* text, std::vector<std::vector<int64_t>> shapes,
                               ProgramOptions options = {}) {
  plant();
  auto graph = parse_graph(text);
  if (!graph.ok()) throw std::runtime_error(graph.status().message());
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i)
    inputs.push_back(
        random_tensor(graph->type(graph->inputs[i].value).dtype, shapes[i], static_cast<uint32_t>(i + 1)));
  auto found = find_difference(*graph, inputs, options);
  if (!found.ok()) throw std::runtime_error(found.status().message());
  return std::move(*found);
}

TEST(Difference, NoneWhereNothingIsWrong) {
  EXPECT_FALSE(find(
      "graph @f(%x: f32[N,N] strides=[1,N], %b: f32[N]) {\n %y = add(%x, %b)\n %s = softmax(%y){axis=1}\n"
      " %z = matmul(%s, %x)\n return %s, %z\n}",
      {{5, 5}, {5}}));
}

TEST(Difference, NoneWhereElementsShareAPlace) {
  EXPECT_FALSE(find("graph @f(%x: f32[5,7] strides=[1,0]) {\n %y = exp(%x)\n return %y\n}", {{5, 7}}));
}

TEST(Difference, TheSmallestGraphOfAWrongRow) {
  const char* text = R"(graph @f(%x: f32[N,M], %b: f32[M], %w: f32[M,M]) {
    %a = add(%x, %b)
    %e = exp(%a)
    %m = matmul(%e, %w)
    %d = planted_sub(%m, %b)
    %s = softmax(%d){axis=1}
    %t = tanh(%s)
    return %e, %t
  })";
  auto found = find(text, {{3, 4}, {4}, {4, 4}});
  ASSERT_TRUE(found);
  const std::string small = report(*found);
  EXPECT_NE(small.find("planted_sub"), small.npos) << small;
  for (const char* gone : {"softmax", "tanh", "exp", "matmul", "add(", "%w", "%x"})
    EXPECT_EQ(small.find(gone), small.npos) << small;
  EXPECT_NE(small.find("leaving out one pass or back end does not help"), small.npos) << small;
}

TEST(Difference, AWrongRunKeepsTheInputsItUpdates) {
  plant();
  auto graph =
      parse_graph("graph @f(%x: f32[4], %w: f32[4]) {\n %y = planted_sub(%x, %w)\n return %y updates %x\n}");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::vector<HostTensor> inputs{random_tensor(DType::f32, {4}, 1), random_tensor(DType::f32, {4}, 2)};
  std::vector<HostTensor> outputs;
  const HostTensor before = inputs[0];
  ProgramOptions options;
  options.verify = 1;
  auto program = Program::make(*graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(run(**program, inputs, outputs).code(), Code::internal);
  EXPECT_EQ(inputs[0].bytes, before.bytes);
}

TEST(Difference, RunsThatAreVerified) {
  plant();
  auto graph =
      parse_graph("graph @f(%x: f32[4], %w: f32[4] param) {\n %y = planted_sub(%x, %w)\n return %y\n}");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  HostTensor x = random_tensor(DType::f32, {4}, 1), w = random_tensor(DType::f32, {4}, 2), y = x;
  ProgramOptions options;
  options.verify = 2;
  options.freeze = true;
  std::vector<Tensor> params{{}, tensor_of(w)}, in{tensor_of(x), {}}, out{tensor_of(y)};
  params[0].dtype = in[1].dtype = DType::f32;
  auto program = Program::make(*graph, options, params);
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (int i = 0; i < 2; ++i) {
    const Status status = (*program)->run(in, out);
    EXPECT_EQ(status.code(), Code::internal);
    EXPECT_NE(status.message().find("planted_sub(%x, %w)"), std::string::npos) << status.message();
  }
  EXPECT_TRUE((*program)->run(in, out).ok());  // the third run is not checked
  options.verify = -1;
  EXPECT_FALSE(Program::make(*graph, options, params).ok());
  options.verify = 0;
  options.without = {"cze"};
  EXPECT_EQ(Program::make(*graph, options, params).status().message(),
            "no pass that may be left out is called cze; there are: simplify sink_gathers fold_batch_norm "
            "layout cse fuse");
}

}  // namespace
}  // namespace tenon
