// Plans with products of matrices launched as CUDA graphs: the library's calls are captured, once as long as tensors stay where
// they are; what a graph cannot be told is built anew; every refusal ends in plain calls.
#include "tests/cublaslt_help.h"

namespace tenon {
namespace {

// Three products and what is between them; the exact gelu is a kernel.
const std::string kLayers = R"(graph @f(%x: T[N,K], %w: T[M,K], %b: T[M], %v: T[M,M]) {
  %h = linear(%x, %w, %b)
  %g = gelu(%h)
  %p = matmul(%g, %v)
  %s = softmax(%p){axis=-1}
  %q = matmul(%s, %v)
  %o = tanh(%q)
  return %o
})";

class CublasLtGraphs : public CublasLt {
 protected:
  void SetUp() override {
    CublasLt::SetUp();
    options.graphs = true;
    auto block = memory().take(kHeld, kStream);
    ASSERT_TRUE(block.ok());
    held.block = *block;
    options.device_memory = &held;
    graph = parsed(typed(kLayers, "f32"));
    program = make(graph);
    inputs = inputs_of(graph, {4, 16, 8});
    tensors = std::make_unique<Tensors>(memory(), inputs);
  }
  void TearDown() override {
    program.reset();
    tensors.reset();
    memory().give(held.block, kHeld, kStream);
    for (const char* left : {"executable", "graph", "stream"})
      EXPECT_THAT(mock().leaks(), testing::Not(testing::HasSubstr(left)));
    CublasLt::TearDown();
  }

  static constexpr int64_t kHeld = 1 << 20;
  // The workspace, always in the same place.
  struct Held final : DeviceMemory {
    Result<Block> take(int64_t bytes, void*) override {
      TENON_CHECK(bytes <= kHeld, "more than there is");
      return block;
    }
    void give(const Block&, int64_t, void*) override {}
    Block block;
  };
  // Inputs and an output that stay where they are.
  struct Tensors {
    Tensors(DeviceMemory& memory, std::vector<HostTensor>& inputs) {
      for (HostTensor& t : inputs) in.push_back(std::make_unique<OnDevice>(memory, t));
      blank = HostTensor(DType::f32, {inputs[0].shape[0], inputs[1].shape[0]});
      out = std::make_unique<OnDevice>(memory, blank);
    }
    std::vector<std::unique_ptr<OnDevice>> in;
    HostTensor blank;
    std::unique_ptr<OnDevice> out;
  };
  static int count(const std::string& call) { return mock().calls(call.c_str()); }

  void run_on(Tensors& t) {
    std::memset(t.out->tensor().data, 0xff, t.blank.bytes.size());
    std::vector<Tensor> in;
    for (const auto& each : t.in) in.push_back(each->tensor());
    const Status status = program->run(in, std::vector<Tensor>{t.out->tensor()}, kStream);
    ASSERT_TRUE(status.ok()) << status.message() << lt().leaks();
    std::vector<HostTensor> now;
    for (const auto& each : t.in) now.push_back(each->read());
    const auto expected = evaluate(graph, now);
    ASSERT_TRUE(expected.ok());
    const HostTensor got = t.out->read();
    for (int64_t i = 0; i < got.count(); ++i) ASSERT_NEAR(got.number(i), (*expected)[0].number(i), 3e-5);
  }
  void run_on() { run_on(*tensors); }

  Held held;
  Graph graph;
  std::shared_ptr<Program> program;
  std::vector<HostTensor> inputs;
  std::unique_ptr<Tensors> tensors;
};

TEST_F(CublasLtGraphs, CallsAreCapturedOnce) {
  const int started = count("cuGraphLaunch"), launched = count("cuLaunchKernel");
  for (int i = 0; i < 3; ++i) run_on();
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 9);
  const int kernels = (count("cuLaunchKernel") - launched) / 3;
  for (int i = 0; i < 5; ++i) {
    // The numbers are others, in the same place.
    auto* x = static_cast<float*>(tensors->in[0]->tensor().data);
    x[i] += 1;
    run_on();
  }
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 12);
  EXPECT_EQ(count("cuLaunchKernel") - launched, 3 * kernels);
  EXPECT_EQ(count("cuGraphLaunch") - started, 5);
}

TEST_F(CublasLtGraphs, WhatMovesIsCapturedAgain) {
  for (int i = 0; i < 5; ++i) run_on();
  std::vector<HostTensor> others = inputs_of(graph, {4, 16, 8});
  for (float& x : std::span(reinterpret_cast<float*>(others[0].bytes.data()), 4)) x = 2;
  Tensors elsewhere(memory(), others);
  const int made = count("cuGraphInstantiateWithFlags"), told = count("cuGraphExecChildGraphNodeSetParams");
  std::swap(elsewhere.in[0], tensors->in[0]);
  run_on();  // one product reads the tensor that moved
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 13);
  EXPECT_EQ(count("cuGraphExecChildGraphNodeSetParams"), told + 1);
  run_on();
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 13);
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), made);
  std::swap(elsewhere.in[0], tensors->in[0]);
}

TEST_F(CublasLtGraphs, WhatCannotBePatchedIsBuiltAnew) {
  for (int i = 0; i < 5; ++i) run_on();
  const int made = count("cuGraphInstantiateWithFlags"), started = count("cuGraphLaunch");
  Tensors elsewhere(memory(), inputs);
  mock().fail("cuGraphExecChildGraphNodeSetParams", 1, 1);
  run_on(elsewhere);
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), made + 1);
  EXPECT_EQ(count("cuGraphLaunch"), started + 1);
}

// Where most calls would be captured with every run, they are queued plainly.
TEST_F(CublasLtGraphs, TensorsThatAlwaysMove) {
  Tensors elsewhere(memory(), inputs);
  const int started = count("cuGraphLaunch");
  for (int i = 0; i < 12; ++i) {
    run_on(elsewhere);
    run_on();
  }
  const int ended = count("cuGraphLaunch");
  EXPECT_GT(ended, started);
  EXPECT_LT(ended - started, 12);
  EXPECT_GE(lt().calls("cublasLtMatmul"), 24 * 3 - 12);
  EXPECT_THAT(mock().leaks(), testing::Not(testing::HasSubstr("executable")));
}

TEST_F(CublasLtGraphs, SumsOverNothing) {
  inputs = inputs_of(graph, {4, 0, 8});
  tensors = std::make_unique<Tensors>(memory(), inputs);
  const int started = count("cuGraphLaunch");
  for (int i = 0; i < 6; ++i) run_on();  // zeros are set within the graph
  EXPECT_EQ(count("cuGraphLaunch") - started, 3);
}

TEST_F(CublasLtGraphs, EveryRefusalEndsInPlainCalls) {
  for (const char* call : {"cuStreamCreate", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
                           "cuGraphAddChildGraphNode", "cuGraphInstantiateWithFlags", "cuGraphLaunch"})
    for (int nth : {1, 2}) {
      SCOPED_TRACE(std::string(call) + " " + std::to_string(nth));
      program = make(graph);
      mock().fail(call, nth, 1);
      for (int i = 0; i < 6; ++i) run_on();
      mock().fail(call, 0, 0);
    }
  program = make(graph);
  for (int i = 0; i < 3; ++i) run_on();
  lt().fail("cublasLtMatmul", 2, cublaslt::kLtInternalError);  // while it is captured
  for (int i = 0; i < 3; ++i) run_on();
}

}  // namespace
}  // namespace tenon
