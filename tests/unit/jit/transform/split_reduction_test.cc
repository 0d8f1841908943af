// Reductions in parts keep errors small. tests/unit/jit/schedule/schedule_test.cc tests which reductions have parts, and run_test.cc their
// results.
#include "jit/transform/split_reduction.h"

#include <gtest/gtest.h>

#include "jit/group_kernels.h"
#include "tests/support/run_help.h"

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

// Lowers all nodes of a graph as one group.
Status one_group(const std::string& type, const char* body, jit::Target target) {
  auto graph = parse_graph("graph @f(%x: " + type + ") {\n" + body + "\n return %y\n}");
  TENON_CHECK(graph.ok(), graph.status().message());
  std::vector<ValueId> members;
  for (ValueId v = 0; v < graph->nodes.size(); ++v)
    if (op(graph->node(v).op).kind != Kind::input) members.push_back(v);
  return jit::covers(*graph, Uses(*graph), members, target);
}

// On a GPU a column reduction has enough threads only if it runs in parts. A second walk along the columns would prevent parts.
TEST(SplitReduction, ColumnsAreWalkedOnceOnAGpu) {
  using jit::Target;
  constexpr const char *kOnce = "%s = sum(%x){axes=[0], keepdims=true}\n%y = neg(%s)",
                       *kTwice = "%s = sum(%x){axes=[0], keepdims=true}\n%y = sub(%x, %s)",
                       *kSums =
                           "%s = sum(%x){axes=[0], keepdims=true}\n%d = sub(%x, %s)\n%y = sum(%d){axes=[0]}",
                       *kRows = "%s = sum(%x){axes=[1], keepdims=true}\n%y = sub(%x, %s)";
  for (const char* body : {kOnce, kTwice, kSums, kRows})
    EXPECT_TRUE(one_group("f32[N,M]", body, Target::cpu).ok()) << body;
  for (const char* body : {kOnce, kRows}) EXPECT_TRUE(one_group("f32[N,M]", body, Target::gpu).ok()) << body;
  for (const char* body : {kTwice, kSums}) {
    EXPECT_EQ(one_group("f32[N,M]", body, Target::gpu).message(),
              "on a GPU columns and channels are walked along once");
    EXPECT_TRUE(one_group("f32[100,M]", body, Target::gpu).ok()) << body;
  }
}

// Sums of columns join a group of rows if a block can keep them and no member of the group reads them.
TEST(RowBlocks, SumsBesideRows) {
  using jit::Target;
  constexpr const char *kBeside =
                           "%s = sum(%x){axes=[1], keepdims=true}\n%d = sub(%x, %s)\n%y = sum(%d){axes=[0]}",
                       *kRead =
                           "%s = sum(%x){axes=[1], keepdims=true}\n%d = sub(%x, %s)\n%c = sum(%d){axes=[0]}\n"
                           "%y = neg(%c)";
  for (const Target target : {Target::cpu, Target::gpu}) {
    EXPECT_TRUE(one_group("f32[N,1024]", kBeside, target).ok());
    EXPECT_EQ(one_group("f32[N,1024]", kRead, target).message(),
              "%c has another shape than the group's loops");
    for (const char* type : {"f32[N,8]", "f32[N,16384]", "f32[N,M]"})
      EXPECT_EQ(one_group(type, kBeside, target).message(), "%y has another shape than the group's loops");
    EXPECT_EQ(one_group("f32[N,64]", kBeside, target).ok(), target == Target::cpu);
  }
}

// The same holds for the channels of images, unless there are many channels or few images.
TEST(SplitReduction, ChannelsAreWalkedOnceOnAGpu) {
  using jit::Target;
  constexpr const char *kOnce = "%s = sum(%x){axes=[0,2,3]}\n%y = neg(%s)",
                       *kTwice = "%s = sum(%x){axes=[0,2,3], keepdims=true}\n%y = sub(%x, %s)";
  EXPECT_TRUE(one_group("f32[N,64,H,W]", kOnce, Target::gpu).ok());
  EXPECT_EQ(one_group("f32[N,64,H,W]", kTwice, Target::gpu).message(),
            "on a GPU columns and channels are walked along once");
  EXPECT_TRUE(one_group("f32[N,64,H,W]", kTwice, Target::cpu).ok());
  for (const char* type : {"f32[N,2048,H,W]", "f32[N,C,H,W]", "f32[1,64,H,W]", "f32[8,64,7,7]"})
    EXPECT_TRUE(one_group(type, kTwice, Target::gpu).ok()) << type;
}

}  // namespace
}  // namespace tenon
