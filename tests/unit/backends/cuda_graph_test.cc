// Plans that are launched as CUDA graphs, on the mock driver: when a graph is made, what is updated, when it needs no update, that it
// computes the same as single launches, and that every refusal of the driver ends in single launches.
#include "backends/nvidia/device/recording.h"
#include "tests/support/nvidia/cuda_graph_help.h"

namespace tenon {
namespace {

// Sums over rows and columns alternate, so that each kernel needs the complete result of the previous one.
constexpr const char* kChain = R"(graph @f(%x: f32[N,M]) {
  %a = sum(%x){axes=[0], keepdims=true}
  %b = mul(%x, %a)
  %c = sum(%b){axes=[1], keepdims=true}
  %d = tanh(%c)
  %e = sum(%d){axes=[0], keepdims=true}
  %f = add(%x, %e)
  %g = sum(%f){axes=[0], keepdims=true}
  %h = mul(%f, %g)
  %i = sum(%h){axes=[1], keepdims=true}
  %k = tanh(%i)
  %o = add(%k, %x)
  return %o
})";

class CudaGraphs : public CudaProgramTest {
 protected:
  void SetUp() override {
    CudaProgramTest::SetUp();
    options.graphs = DeviceGraphs::always;
    graph = parsed(kChain);
    auto made = Program::make(graph, options, {});
    ASSERT_TRUE(made.ok()) << made.status().message();
    program = *made;
  }
  void run(int64_t n = 3, int64_t m = 40, uint32_t seed = 1) {
    check(*program, graph, {random_tensor(DType::f32, {n, m}, seed)});
  }
  static int count(const std::string& call) { return mock().calls(call.c_str()); }

  // While it lives, kernels are loaded again and launches are only counted.
  class Counted {
   public:
    explicit Counted(std::shared_ptr<Program>& program) : program_(program) {
      program_.reset();
      cuda::forget_all();
      setenv("TENON_NVRTC_MOCK_RUN", "off", 1);
    }
    Counted(const Counted&) = delete;
    ~Counted() {
      unsetenv("TENON_NVRTC_MOCK_RUN");
      program_.reset();
      cuda::forget_all();
    }

   private:
    std::shared_ptr<Program>& program_;
  };

  Graph graph;
  std::shared_ptr<Program> program;
};

TEST_F(CudaGraphs, FromTheFourthRunOn) {
  const int launched = count("cuLaunchKernel"), started = count("cuGraphLaunch"),
            made = count("cuGraphCreate");
  for (int i = 0; i < 3; ++i) run();
  const int kernels = (count("cuLaunchKernel") - launched) / 3;
  EXPECT_GE(kernels, 4);
  EXPECT_EQ(count("cuGraphLaunch"), started);
  for (int i = 0; i < 4; ++i) run(3, 40, static_cast<uint32_t>(i));
  EXPECT_EQ(count("cuLaunchKernel") - launched, 3 * kernels);
  EXPECT_EQ(count("cuGraphLaunch") - started, 4);
  EXPECT_EQ(count("cuGraphCreate") - made, 1);
}

// When tensors move, only the nodes that differ are updated.
TEST_F(CudaGraphs, PointersArePatched) {
  Held held(memory(), 1 << 16);
  options.device_memory = &held;
  auto other = Program::make(graph, options, {});
  ASSERT_TRUE(other.ok());
  program = *other;
  std::vector<HostTensor> in{random_tensor(DType::f32, {3, 40}, 9)};
  HostTensor blank(DType::f32, {3, 40}), same = in[0];
  // All are alive at once, so their addresses differ.
  OnDevice x(memory(), in[0]), other_x(memory(), same), y(memory(), blank), other_y(memory(), blank);
  auto run_on = [&](const OnDevice& from, const OnDevice& to) {
    return program->run(std::vector<Tensor>{from.tensor()}, std::vector<Tensor>{to.tensor()}, kStream).ok();
  };
  auto patched = [] { return count("cuGraphExecKernelNodeSetParams_v2"); };
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(run_on(x, y));
  const int made = count("cuGraphInstantiateWithFlags"), before = patched();
  ASSERT_TRUE(run_on(x, y));
  EXPECT_EQ(patched(), before);
  ASSERT_TRUE(run_on(x, other_y));
  EXPECT_EQ(patched(), before + 1);  // only the last kernel writes the output
  ASSERT_TRUE(run_on(other_x, other_y));
  EXPECT_GT(patched(), before + 1);
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), made);
  auto expected = evaluate(graph, in);
  ASSERT_TRUE(expected.ok());
  const HostTensor got = other_y.read();
  for (int64_t i = 0; i < got.count(); ++i)
    ASSERT_NEAR(got.number(i), (*expected)[0].number(i), 1e-4) << program->explain(false);
}

TEST_F(CudaGraphs, NotWhileTheStreamCaptures) {
  for (int i = 0; i < 5; ++i) run();
  const int started = count("cuGraphLaunch");
  HostTensor in = random_tensor(DType::f32, {3, 40}, 2), blank(DType::f32, {3, 40});
  OnDevice x(memory(), in), y(memory(), blank);
  Held held(memory(), 1 << 16);  // the driver's pool gives no memory while a stream captures
  options.device_memory = &held;
  auto other = Program::make(graph, options, {});
  ASSERT_TRUE(other.ok());
  const std::vector<Tensor> inputs{x.tensor()}, outputs{y.tensor()};
  for (int i = 0; i < 5; ++i) ASSERT_TRUE((*other)->run(inputs, outputs, kStream).ok());
  EXPECT_EQ(count("cuGraphLaunch"), started + 2);
  mock().capture(kStream, 1);
  const int launched = count("cuLaunchKernel");
  EXPECT_TRUE((*other)->run(inputs, outputs, kStream).ok());
  EXPECT_EQ(count("cuGraphLaunch"), started + 2);
  EXPECT_GT(count("cuLaunchKernel"), launched);
  mock().capture(kStream, 0);
  EXPECT_TRUE((*other)->run(inputs, outputs, kStream).ok());
  EXPECT_EQ(count("cuGraphLaunch"), started + 3);
}

// A form that is missing while the graph is updated is compiled, although another stream captures.
TEST_F(CudaGraphs, UnalignedTensorsWhileAnotherStreamCaptures) {
  Held held(memory(), 1 << 16);
  options.device_memory = &held;
  program = make(graph);
  HostTensor in = random_tensor(DType::f32, {3, 40}, 9), blank(DType::f32, {3, 40}), same = in;
  OnDevice x(memory(), in), y(memory(), blank), odd(memory(), same, 4);
  auto run_on = [&](const OnDevice& from) {
    return program->run(std::vector<Tensor>{from.tensor()}, std::vector<Tensor>{y.tensor()}, kStream);
  };
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(run_on(x).ok());
  const int started = count("cuGraphLaunch");
  void* const other = reinterpret_cast<void*>(8);
  mock().capture(other, 1);
  const Status moved = run_on(odd);
  mock().capture(other, 0);
  ASSERT_TRUE(moved.ok()) << moved.message();
  ASSERT_TRUE(run_on(odd).ok());
  EXPECT_EQ(count("cuGraphLaunch"), started + 2);
}

// There is one graph per set of sizes. A graph dies with its plan, and the program leaves none behind.
TEST_F(CudaGraphs, GoWithTheirPlans) {
  program->set_limits({2, 1 << 20});
  for (int64_t m : {8, 16, 24, 32})
    for (int i = 0; i < 5; ++i) run(2, m);
  const std::string now = mock().leaks();
  int alive = 0;
  for (size_t at = now.find("executable X"); at != now.npos; at = now.find("executable X", at + 1)) ++alive;
  EXPECT_EQ(alive, 2) << now;
  program.reset();
  for (const char* left : {"executable", "graph", "memory"})
    EXPECT_EQ(std::string(mock().leaks()).find(left), std::string::npos) << mock().leaks();
}

// By default graphs are made for plans whose kernels take less time than a launch.
TEST_F(CudaGraphs, OfSmallKernels) {
  const Counted counted(program);
  HostTensor host(DType::f32, {2048, 4096});
  OnDevice x(memory(), host), y(memory(), host);
  Held held(memory(), 256 << 20);
  options.device_memory = &held;
  auto started = [&](DeviceGraphs graphs, int64_t n) {
    options.graphs = graphs;
    const auto fresh = make(graph);
    const std::vector<int64_t> shape{n, 4096};
    Tensor in = x.tensor(), out = y.tensor();
    in.shape = out.shape = shape;
    const int before = count("cuGraphLaunch");
    for (int i = 0; i < 5; ++i)
      EXPECT_TRUE(fresh->run(std::vector<Tensor>{in}, std::vector<Tensor>{out}, kStream).ok());
    return count("cuGraphLaunch") - before;
  };
  EXPECT_EQ(started(DeviceGraphs::of_small_kernels, 256), 2);
  EXPECT_EQ(started(DeviceGraphs::of_small_kernels, 2048), 0);
  EXPECT_EQ(started(DeviceGraphs::always, 2048), 2);
  EXPECT_EQ(started(DeviceGraphs::never, 256), 0);
}

// The number of graphs is limited, and a graph that is no longer launched is replaced.
TEST_F(CudaGraphs, TheOldestMakesRoom) {
  const Counted counted(program);
  program = make(graph);
  HostTensor host(DType::f32, {3, 512});
  OnDevice x(memory(), host), y(memory(), host);
  auto run = [&](int64_t n, int64_t m) {
    const std::vector<int64_t> shape{n, m};
    Tensor in = x.tensor(), out = y.tensor();
    in.shape = out.shape = shape;
    ASSERT_TRUE(program->run(std::vector<Tensor>{in}, std::vector<Tensor>{out}, kStream).ok());
  };
  program->set_limits({2 * cuda::kMostGraphs, 1 << 24});
  auto made = [] { return count("cuGraphInstantiateWithFlags"); };
  const int before = made(), gone = count("cuGraphExecDestroy"), most = static_cast<int>(cuda::kMostGraphs);
  for (int64_t g = 0; g < most; ++g)
    for (int i = 0; i < 4; ++i) run(3, 40 + g);
  EXPECT_EQ(made() - before, most);
  for (int i = 0; i < 8; ++i) run(3, 200);
  EXPECT_EQ(made() - before, most);
  for (uint64_t i = 0; i < cuda::kForgottenAfter; ++i) run(3, 41);
  for (int i = 0; i < 8; ++i) run(3, 200);
  EXPECT_EQ(made() - before, most + 1);
  EXPECT_EQ(count("cuGraphExecDestroy") - gone, 1);
  const int started = count("cuGraphLaunch");
  for (int i = 0; i < 4; ++i) run(3, 40);  // the graph of these sizes was replaced
  EXPECT_EQ(count("cuGraphLaunch"), started);
}

TEST_F(CudaGraphs, WhatTheDriverRefusesIsLaunchedKernelByKernel) {
  for (const char* call :
       {"cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags", "cuGraphLaunch"})
    for (int nth : {1, 2}) {
      SCOPED_TRACE(std::string(call) + " " + std::to_string(nth));
      auto fresh = Program::make(graph, options, {});
      ASSERT_TRUE(fresh.ok());
      program = *fresh;
      mock().fail(call, nth, 2);
      for (int i = 0; i < 6; ++i) run();
      mock().fail(call, 0, 0);
      program.reset();
    }
  auto fresh = Program::make(graph, options, {});
  program = std::move(*fresh);
  for (int i = 0; i < 4; ++i) run();
  mock().fail("cuGraphExecKernelNodeSetParams_v2", 1, 1);
  for (int i = 0; i < 4; ++i) run(3, 40, static_cast<uint32_t>(i));
  mock().fail("cuGraphExecKernelNodeSetParams_v2", 0, 0);
  program.reset();
  EXPECT_EQ(std::string(mock().leaks()).find("executable"), std::string::npos) << mock().leaks();
  EXPECT_EQ(std::string(mock().leaks()).find("graph"), std::string::npos) << mock().leaks();
}

}  // namespace
}  // namespace tenon
