// Many threads on one device: the same program and others, sizes that evict each other's plans, CUDA graphs, programs that are made and
// destroyed, plans that wait for a compile. Launches are only logged, since this tests the code around them, also with
// ThreadSanitizer.
#include <atomic>
#include <thread>

#include "tests/support/nvidia/cuda_program_help.h"

namespace tenon {
namespace {

constexpr int kThreads = 8, kRuns = 60;
constexpr const char* kSteps = R"(graph @f(%x: f32[N,M]) {
  %a = sum(%x){axes=[0], keepdims=true}
  %b = mul(%x, %a)
  %c = sum(%b){axes=[1], keepdims=true}
  %d = tanh(%c)
  %e = sum(%d){axes=[0], keepdims=true}
  %f = add(%x, %e)
  %g = sum(%f){axes=[0], keepdims=true}
  %o = mul(%f, %g)
  return %o
})";

class CudaThreads : public CudaProgramTest {
 protected:
  static void SetUpTestSuite() {
    CudaProgramTest::SetUpTestSuite();
    setenv("TENON_NVRTC_MOCK_RUN", "off", 1);
  }
};

TEST_F(CudaThreads, RunEvictCompileAndGo) {
  options.graphs = DeviceGraphs::always;
  options.limits = {3, 1 << 20};
  const Graph graph = parsed(kSteps);
  auto made = Program::make(graph, options, {});
  ASSERT_TRUE(made.ok()) << made.status().message();
  const std::shared_ptr<Program> shared = *made;
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      void* const stream = reinterpret_cast<void*>(static_cast<uintptr_t>(t + 1));
      std::shared_ptr<Program> own;
      for (int i = 0; i < kRuns; ++i) {
        if (i % 20 == 0) {
          auto fresh = Program::make(graph, options, {});
          if (fresh.ok())
            own = *fresh;
          else
            ++failed;
        }
        const std::vector<int64_t> shape{1 + (t + i) % 5, 8 * (1 + i / 8 % 3)};
        HostTensor in(DType::f32, shape), out(DType::f32, shape);
        OnDevice x(memory(), in), y(memory(), out);
        const std::vector<Tensor> inputs{x.tensor()}, outputs{y.tensor()};
        for (const auto& program : {shared, own})
          if (!program->run(inputs, outputs, stream).ok()) ++failed;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failed, 0);
  const PlanStats plans = shared->stats().plans;
  EXPECT_LE(plans.plans, 3);
  EXPECT_GT(plans.evictions, 0);
  EXPECT_GT(mock().calls("cuLaunchKernel"), kThreads * kRuns);
}

}  // namespace
}  // namespace tenon
