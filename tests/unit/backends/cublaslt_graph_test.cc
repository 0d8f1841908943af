// Plans with products of matrices that are launched as CUDA graphs. A call of the library is captured once while its tensors stay
// at the same addresses. A graph that cannot be updated is built again. After every refusal of the driver the calls run without a
// graph.
#include "tests/support/nvidia/cublaslt_help.h"
#include "tests/support/nvidia/cuda_graph_help.h"

namespace tenon {
namespace {

// Three products with kernels between them; the exact gelu is a kernel.
const std::string kLayers = R"(graph @f(%x: T[N,K], %w: T[M,K], %b: T[M], %v: T[M,M]) {
  %h = linear(%x, %w, %b)
  %g = gelu(%h)
  %p = matmul(%g, %v)
  %s = softmax(%p){axis=-1}
  %q = matmul(%s, %v)
  %o = tanh(%q)
  return %o
})";

class CublasLtGraphs : public GraphsOf<CublasLt> {
 protected:
  void SetUp() override {
    GraphsOf::SetUp();
    use(typed(kLayers, "f32"), {4, 16, 8});
  }
};

TEST_F(CublasLtGraphs, CallsAreCapturedOnce) {
  const int started = count("cuGraphLaunch"), launched = count("cuLaunchKernel");
  for (int i = 0; i < 3; ++i) run_on();
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 9);
  const int kernels = (count("cuLaunchKernel") - launched) / 3;
  for (int i = 0; i < 5; ++i) {
    // Other numbers at the same addresses.
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
  const auto elsewhere = made({4, 16, 8});
  *static_cast<float*>(elsewhere->in[0]->tensor().data) = 2;
  const int made = count("cuGraphInstantiateWithFlags"), told = count("cuGraphExecChildGraphNodeSetParams");
  std::swap(elsewhere->in[0], tensors->in[0]);
  run_on();  // one product reads the tensor that moved
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 13);
  EXPECT_EQ(count("cuGraphExecChildGraphNodeSetParams"), told + 1);
  run_on();
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 13);
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), made);
  std::swap(elsewhere->in[0], tensors->in[0]);
}

TEST_F(CublasLtGraphs, WhatCannotBePatchedIsBuiltAnew) {
  for (int i = 0; i < 5; ++i) run_on();
  const int instantiated = count("cuGraphInstantiateWithFlags"), started = count("cuGraphLaunch");
  const auto elsewhere = made({4, 16, 8});
  mock().fail("cuGraphExecChildGraphNodeSetParams", 1, 1);
  run_on(*elsewhere);
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), instantiated + 1);
  EXPECT_EQ(count("cuGraphLaunch"), started + 1);
}

// If most calls would have to be captured with every run, they run without a graph.
TEST_F(CublasLtGraphs, TensorsThatAlwaysMove) {
  const auto elsewhere = made({4, 16, 8});
  const int started = count("cuGraphLaunch");
  for (int i = 0; i < 12; ++i) {
    run_on(*elsewhere);
    run_on();
  }
  const int ended = count("cuGraphLaunch");
  EXPECT_GT(ended, started);
  EXPECT_LT(ended - started, 12);
  EXPECT_GE(lt().calls("cublasLtMatmul"), 24 * 3 - 12);
  EXPECT_THAT(mock().leaks(), testing::Not(testing::HasSubstr("executable")));
}

TEST_F(CublasLtGraphs, SumsOverNothing) {
  tensors = made({4, 0, 8});
  const int started = count("cuGraphLaunch");
  for (int i = 0; i < 6; ++i) run_on();  // the graph sets the zeros
  EXPECT_EQ(count("cuGraphLaunch") - started, 3);
}

// An algorithm for tensors of another alignment is chosen before the capture begins.
TEST_F(CublasLtGraphs, ChoicesAreMadeBeforeACaptureBegins) {
  for (int i = 0; i < 5; ++i) run_on();
  const auto shifted = made({4, 16, 8}, 4);
  run_on(*shifted);
  lt().set("aligned", 16);
  library::kept_algorithms<cublaslt::Algorithm>().clear();
  program = make(graph);
  for (int i = 0; i < 5; ++i) run_on();
  const int begun = count("cuStreamBeginCapture_v2");
  std::swap(shifted->in[0], tensors->in[0]);
  EXPECT_EQ(try_on(*tensors).message(),
            "cuBLASLt has no algorithm for 4x8x16 f32, bias of tensors aligned to 4 bytes");
  EXPECT_EQ(count("cuStreamBeginCapture_v2"), begun);
  std::swap(shifted->in[0], tensors->in[0]);
  run_on();
}

// Handles, plans and graphs are made while another stream captures, without an effect on that capture.
TEST_F(CublasLtGraphs, WhileAnotherStreamCaptures) {
  forget();
  const auto other = reinterpret_cast<cuda::CuStream>(8);
  mock().capture(other, 1);
  const int started = count("cuGraphLaunch");
  program = make(graph);
  for (int i = 0; i < 5; ++i) run_on();
  EXPECT_EQ(count("cuGraphLaunch") - started, 2);
  program.reset();
  int status = 0;
  EXPECT_TRUE((*cuda::Driver::get())->cuStreamIsCapturing(other, &status).ok());
  EXPECT_EQ(status, 1);
  mock().capture(other, 0);
}

TEST_F(CublasLtGraphs, EveryRefusalEndsInPlainCalls) {
  refuse_in_turn();
  program = make(graph);
  for (int i = 0; i < 3; ++i) run_on();
  lt().fail("cublasLtMatmul", 2, cublaslt::kLtInternalError);  // fails while it is captured
  for (int i = 0; i < 3; ++i) run_on();
}

}  // namespace
}  // namespace tenon
