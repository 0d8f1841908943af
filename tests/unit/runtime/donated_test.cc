// Intermediates in the memory of donated inputs: when a plan uses it, and what a host may rely on.
#include <gtest/gtest.h>

#include <random>

#include "src/ir/verify.h"
#include "tests/support/graph_check.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

struct Ran {
  bool uses_donated;
  int64_t workspace;
};

// Compiles the text, runs it on random inputs of the declared sizes and expects the results of the evaluator.
Ran ran(const std::string& text, int threads = 1) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE(verify(*graph).ok()) << verify(*graph).message();
  std::vector<HostTensor> inputs;
  for (const InputBinding& in : graph->inputs) {
    std::vector<int64_t> shape;
    for (Dim d : graph->type(in.value).shape) shape.push_back(d.value());
    inputs.push_back(random_tensor(graph->type(in.value).dtype, shape, static_cast<uint32_t>(inputs.size())));
  }
  ProgramOptions options;
  options.threads = threads;
  const CheckResult result = check_program(*graph, inputs, {}, options);
  EXPECT_EQ(result.kind, CheckResult::right) << text << result.message;
  return {result.uses_donated, result.workspace};
}

// %a is read first, so its memory may hold %r, which two products keep alive.
std::string chain(const std::string& a, const std::string& last = "%q") {
  return "graph @f(%a: f32[64,64]" + a + R"(, %w: f32[64,64]) {
    %p = matmul(%a, %w)
    %q = matmul(%p, %w)
    %r = matmul(%q, %w)
    %s = matmul(%r, )" +
         last + R"()
    return %s
  })";
}

TEST(Donated, HoldsIntermediates) {
  const Ran kept = ran(chain("")), given = ran(chain(" donated"));
  EXPECT_FALSE(kept.uses_donated);
  EXPECT_TRUE(given.uses_donated);
  EXPECT_LE(given.workspace, kept.workspace - 64 * 64 * 4);
}

TEST(Donated, IsNotUsedWhileAStepReadsIt) { EXPECT_FALSE(ran(chain(" donated", "%a")).uses_donated); }

TEST(Donated, ThatIsReturnedKeepsItsValues) {
  ran(R"(graph @f(%a: f32[64,64] donated, %w: f32[64,64]) {
    %p = matmul(%a, %w)
    %q = matmul(%p, %w)
    %r = matmul(%q, %w)
    return %r, %a
  })");
}

// Graphs of products, which keep their results in memory, and of small nodes between them.
TEST(Donated, RandomGraphs) {
  std::mt19937 random(3);
  const auto below = [&](size_t n) { return random() % n; };
  int uses = 0;
  for (int round = 0; round < 60; ++round) {
    const size_t inputs = 2 + below(4), nodes = 4 + below(12);
    std::string text = "graph @f(";
    for (size_t i = 0; i < inputs; ++i)
      text += (i ? ", %v" : "%v") + std::to_string(i) + ": f32[24,24]" + (below(3) ? " donated" : "");
    text += ") {\n  %s = full{value=0.2, shape=[], dtype=f32}\n";
    for (size_t n = inputs; n < inputs + nodes; ++n) {
      // Mostly late values, so that early ones die.
      const auto any = [&] { return "%v" + std::to_string(n - 1 - std::min(below(n), below(n))); };
      const std::string p = "%p" + std::to_string(n), y = "  %v" + std::to_string(n) + " = ";
      switch (below(6)) {
        case 0: text += y + "softmax(" + any() + "){axis=-1}\n"; break;
        case 1: text += y + "add(" + any() + ", " + any() + ")\n"; break;
        case 2: text += y + "transpose(" + any() + "){perm=[1,0]}\n"; break;
        default:
          text += "  " + p + " = matmul(" + any() + ", " + any() + ")\n" + y + "mul(" + p + ", %s)\n";
          break;
      }
    }
    text += "  return %v" + std::to_string(inputs + nodes - 1);
    if (below(3) == 0) text += ", %v" + std::to_string(below(inputs + nodes - 1));
    uses += ran(text + "\n}", 1 + round % 2).uses_donated;
    if (HasFailure()) break;
  }
  EXPECT_GE(uses, 20);
}

TEST(Donated, MemoryOfOtherTensorsBetweenRowsIsLeftAlone) {
  const std::string text = chain(" strides=[128,1] donated");
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto program = Program::make(*graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  HostTensor wide = random_tensor(DType::f32, {64, 128}, 1), w = random_tensor(DType::f32, {64, 64}, 2),
             out(DType::f32, {64, 64});
  const HostTensor before = wide;
  const std::vector<int64_t> shape{64, 64}, strides{128, 1};
  const std::vector<Tensor> in{{wide.bytes.data(), DType::f32, shape, strides}, tensor_of(w)},
      outputs{tensor_of(out)};
  ASSERT_TRUE((*program)->run(in, outputs).ok());
  EXPECT_EQ(wide.bytes, before.bytes);
}

// A host may compute the outputs itself after a run that fails.
TEST(Donated, StaysAsItWasIfTheRunFails) {
  const char* text = R"(graph @f(%a: f32[64,64] donated, %w: f32[64,64], %i: i64[64]) {
    %p = matmul(%a, %w)
    %q = matmul(%p, %w)
    %r = matmul(%q, %w)
    %x = matmul(%r, %w)
    %s = gather(%x, %i){axis=0}
    %t = matmul(%s, %w)
    %u = matmul(%t, %s)
    return %u
  })";
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto program = Program::make(*graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<HostTensor> inputs{random_tensor(DType::f32, {64, 64}, 1),
                                 random_tensor(DType::f32, {64, 64}, 2), HostTensor(DType::i64, {64})};
  inputs[2].set(63, {0, 64});
  const HostTensor before = inputs[0];
  std::vector<HostTensor> outputs{HostTensor(DType::f32, {64, 64})};
  EXPECT_EQ(run(**program, inputs, outputs).code(), Code::invalid);
  EXPECT_EQ(inputs[0].bytes, before.bytes);
}

TEST(Donated, MustNotOverlapAnotherTensor) {
  for (const int more : {0, 40}) {  // many tensors are compared in another way
    std::string text = "graph @f(%a: f32[8] donated, %b: f32[8]", sum = "  %s0 = add(%a, %b)\n";
    for (int i = 0; i < more; ++i) {
      const std::string n = std::to_string(i), next = std::to_string(i + 1);
      text += ", %x" + n + ": f32[8] donated";
      sum += "  %s" + next + " = add(%s" + n + ", %x" + n + ")\n";
    }
    auto graph = parse_graph(text + ") {\n" + sum + "  return %s" + std::to_string(more) + "\n}");
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    auto program = Program::make(*graph, {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    std::vector<HostTensor> inputs(2 + static_cast<size_t>(more), HostTensor(DType::f32, {8}));
    HostTensor out(DType::f32, {8});
    const auto status_with = [&](void* a) {
      std::vector<Tensor> in;
      for (HostTensor& t : inputs) in.push_back(tensor_of(t));
      in[0].data = a;
      const std::vector<Tensor> outputs{tensor_of(out)};
      return (*program)->run(in, outputs);
    };
    EXPECT_TRUE(status_with(inputs[0].bytes.data()).ok());
    EXPECT_EQ(status_with(inputs[1].bytes.data()).message(), "donated input %a overlaps input %b");
    EXPECT_EQ(status_with(out.bytes.data()).code(), Code::invalid);
  }
}

TEST(Donated, IsNoParamAndDefinesNoSymbol) {
  for (const char* text : {"graph @f(%a: f32[4] param donated) {\n %b = exp(%a)\n return %b\n}",
                           "graph @f(%n: i64[] donated = N, %a: f32[N]) {\n %b = exp(%a)\n return %b\n}",
                           "graph @f(%a: f32[4] donated) {\n %b = exp(%a)\n return %b updates %a\n}"}) {
    auto graph = parse_graph(text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_NE(verify(*graph).message().find("donated"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tenon
