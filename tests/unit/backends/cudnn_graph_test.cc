// Plans with convolutions that are launched as CUDA graphs. A call of the library is captured once while its tensors stay at the same
// addresses, with a handle that nothing else uses meanwhile. Handles and plans are made while no stream captures, neither ours nor
// the caller's (the mock checks this). After every refusal the calls run without a graph.
#include "backends/nvidia/cudnn/handles.h"
#include "tests/support/nvidia/cuda_graph_help.h"
#include "tests/support/nvidia/cudnn_help.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// Two convolutions with kernels between them; the first convolution reads its operands in place.
const std::string kLayers = R"(graph @f(%x: T[N,9,7,C], %w: T[8,C,1,1], %v: T[8,8,3,3], %b: T[8]) {
  %c = convolution(%x, %w){strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1], layout="channels_last"}
  %s = softmax(%c){axis=-1}
  %d = convolution(%s, %v, %b){strides=[2,1], padding=[1,1], padding_high=[1,1], dilations=[1,1], layout="channels_last"}
  %y = tanh(%d)
  return %y
})";
const std::vector<int64_t> kSizes{2, 4};

class CudnnGraphs : public GraphsOf<Cudnn> {
 protected:
  void SetUp() override {
    GraphsOf::SetUp();
    use(typed(kLayers, "f32"), kSizes);
  }
  static int executed() { return dnn().calls("cudnnBackendExecute"); }
  static cudnn::Handles& handles() { return **cudnn::Handles::of(0); }
};

TEST_F(CudnnGraphs, CallsAreCapturedOnce) {
  const int started = count("cuGraphLaunch"), launched = count("cuLaunchKernel");
  for (int i = 0; i < 3; ++i) run_on();
  EXPECT_EQ(executed(), 6);
  const int kernels = (count("cuLaunchKernel") - launched) / 3;
  EXPECT_GE(kernels, 2);
  for (int i = 0; i < 5; ++i) {
    // Other numbers at the same addresses.
    static_cast<float*>(tensors->in[0]->tensor().data)[i] += 1;
    run_on();
  }
  EXPECT_EQ(executed(), 8);
  EXPECT_EQ(count("cuLaunchKernel") - launched, 3 * kernels);
  EXPECT_EQ(count("cuGraphLaunch") - started, 5);
}

TEST_F(CudnnGraphs, WhatMovesIsCapturedAgain) {
  for (int i = 0; i < 5; ++i) run_on();
  const auto elsewhere = made(kSizes);
  *static_cast<float*>(elsewhere->in[0]->tensor().data) = 2;
  const int instantiated = count("cuGraphInstantiateWithFlags"),
            told = count("cuGraphExecChildGraphNodeSetParams"), before = executed();
  std::swap(elsewhere->in[0], tensors->in[0]);
  run_on();  // one convolution reads the tensor that moved
  EXPECT_EQ(executed(), before + 1);
  EXPECT_EQ(count("cuGraphExecChildGraphNodeSetParams"), told + 1);
  run_on();
  EXPECT_EQ(executed(), before + 1);
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), instantiated);
  std::swap(elsewhere->in[0], tensors->in[0]);
}

TEST_F(CudnnGraphs, PlansAreMadeBeforeACaptureBegins) {
  for (int i = 0; i < 5; ++i) run_on();
  const int started = count("cuGraphLaunch");
  // A plan for tensors of another alignment.
  const auto shifted = made(kSizes, 4);
  run_on(*shifted);
  EXPECT_THAT(lines().back(), HasSubstr("aligned 4"));
  // A plan for another handle, since the first one is leased.
  const auto leased = handles().lease();
  ASSERT_TRUE(leased.ok());
  run_on();
  EXPECT_EQ(dnn().calls("cudnnCreate"), 2);
  EXPECT_EQ(count("cuGraphLaunch"), started + 2);
}

TEST_F(CudnnGraphs, HandlesComeBack) {
  for (const char* call : {"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"}) {
    program = make(graph);
    for (int i = 0; i < 3; ++i) run_on();
    mock().fail(call, 1, 1);
    run_on();
  }
  const auto leased = handles().lease();
  EXPECT_EQ(dnn().calls("cudnnCreate"), 1);
}

TEST_F(CudnnGraphs, SumsOverNothing) {
  tensors = made({2, 0});
  const int started = count("cuGraphLaunch");
  for (int i = 0; i < 6; ++i) run_on();  // the graph sets the zeros
  EXPECT_EQ(count("cuGraphLaunch") - started, 3);
  EXPECT_EQ(executed(), 4);
}

TEST_F(CudnnGraphs, EveryRefusalEndsInPlainCalls) {
  refuse_in_turn();
  for (const char* function : {"cudnnSetStream", "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                               "cudnnBackendFinalize", "cudnnBackendExecute"})
    for (int nth : {1, 2}) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(nth));
      program = make(graph);
      for (int i = 0; i < 3; ++i) run_on();
      const int begun = count("cuStreamBeginCapture_v2"), ended = count("cuStreamEndCapture");
      dnn().fail(function, nth, cudnn::kDnnInternalError);  // fails while it is captured
      for (int i = 0; i < 3; ++i) run_on();
      EXPECT_GT(count("cuStreamBeginCapture_v2"), begun);
      EXPECT_EQ(count("cuStreamBeginCapture_v2") - begun, count("cuStreamEndCapture") - ended);
      dnn().fail(function, 0, 0);
    }
}

// Existing plans are used, and no new ones are made.
TEST_F(CudnnGraphs, WhileTheCallerCaptures) {
  for (int i = 0; i < 2; ++i) run_on();
  const auto shifted = made(kSizes, 4);
  mock().capture(kStream, 1);
  EXPECT_TRUE(try_on(*tensors).ok());
  const Status status = try_on(*shifted);
  EXPECT_EQ(status.code(), Code::environment);
  EXPECT_EQ(status.message(),
            "the stream captures, and cuDNN has no plan yet for 2x4x9x7 by 8x4x1x1 f32 of tensors aligned to "
            "4 bytes: run once with them before the capture");
  mock().capture(kStream, 0);
  run_on(*shifted);
  {
    // The run takes the handle that has plans, although another one is idle.
    auto one = handles().lease(), other = handles().lease();
    ASSERT_TRUE(one.ok() && other.ok());
    one->swap(*other);
    one->reset();
    other->reset();
  }
  mock().capture(kStream, 1);
  EXPECT_TRUE(try_on(*shifted).ok());
  EXPECT_TRUE(try_on(*tensors).ok());
  const auto leased = handles().lease(), leased_too = handles().lease();
  EXPECT_THAT(try_on(*tensors).message(), HasSubstr("cuDNN has no plan yet for"));
  mock().capture(kStream, 0);
  EXPECT_EQ(dnn().calls("cudnnCreate"), 2);
}

// Making a handle and a plan has no effect on the capture of another stream.
TEST_F(CudnnGraphs, WhileAnotherStreamCaptures) {
  const auto other = reinterpret_cast<void*>(9);
  mock().capture(other, 1);
  program = make(graph);
  EXPECT_TRUE(try_on(*tensors).ok());
  const auto leased = handles().lease();
  EXPECT_TRUE(try_on(*tensors).ok());  // uses another handle with new plans
  mock().capture(other, 0);
  EXPECT_EQ(dnn().calls("cudnnCreate"), 2);
  EXPECT_THAT(dnn().leaks(), testing::Not(HasSubstr("captures")));
}

TEST_F(CudnnGraphs, Threads) {
  options.device_memory = nullptr;
  check_threads(graph, kSizes, 0, 30);
}

}  // namespace
}  // namespace tenon
