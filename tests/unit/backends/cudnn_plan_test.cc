// Our graphs on NVIDIA's cuDNN, planned for GPUs that are absent. From the description of a device the library names its engines,
// makes execution plans and compiles their kernels; nothing runs. If the library is not installed, the tests are skipped;
// `./dev test --only nvidia` installs it.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "backends/nvidia/cudnn/attention.h"
#include "backends/nvidia/cudnn/convolution.h"
#include "backends/nvidia/cudnn/engines.h"
#include "tests/support/library_help.h"
#include "tests/support/paths.h"

namespace tenon::cudnn {
namespace {

using testing::HasSubstr;

// The properties of a device that the library (9.28) needs; its log names missing ones.
std::string device_json(const char* name, int arch, int processors, int shared, int64_t memory) {
  return R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"warpSize":32,)"
         R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
         R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
         R"("supportCoopLaunch":1,"smClockRateKHz":1755000,"memClockRateKHz":2619000,"memoryBusWidth":5120,)"
         R"("l2CacheSize":52428800,"cudaDeviceId":0,"driverVer":13000,"deviceName":")" +
         std::string(name) + R"(","deviceVer":)" + std::to_string(arch) + R"(,"multiProcessorCount":)" +
         std::to_string(processors) + R"(,"maxSharedMemoryPerBlockOptin":)" + std::to_string(shared) +
         R"(,"totalGlobalMem":)" + std::to_string(memory) + "}";
}
struct Described {
  const char* name;
  std::string json;
};
const std::vector<Described>& devices() {
  static const std::vector<Described> all{
      {"A100", device_json("NVIDIA A100-SXM4-40GB", 800, 108, 166912, int64_t{40} << 30)},
      {"H100", device_json("NVIDIA H100 80GB HBM3", 900, 132, 232448, int64_t{80} << 30)},
      {"B200", device_json("NVIDIA B200", 1000, 148, 232448, int64_t{180} << 30)}};
  return all;
}

class CudnnPlans : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string dnn = nvidia_library("TENON_CUDNN", {"libcudnn.so.9"}, {"cudnn/lib"}),
                             blas = nvidia_library("TENON_CUBLASLT", {"libcublasLt.so.13"}, {"cu13/lib"}),
                             nvrtc = nvidia_library("TENON_NVRTC", {"libnvrtc.so.13"}, {"cu13/lib"});
    if (dnn.empty() || blas.empty() || nvrtc.empty()) {
      std::cerr << "NVIDIA's cuDNN, cuBLASLt and NVRTC are not here: nothing is planned\n";
      GTEST_SKIP();
    }
    // These are loaded first, since cuDNN looks them up by name.
    for (const std::string& path : {std::string(kCudaStub), nvrtc, blas})
      ASSERT_NE(dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    auto opened = Library::open({"cuDNN", {dnn}, "", {}, ""});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(*opened);
  }

  std::unique_ptr<Descriptor> device(const std::string& json) {
    auto made = Descriptor::make(*library, kDnnDeviceProperties, "a device");
    TENON_CHECK(made.ok(), made.status().message());
    Status status =
        made->set_raw(kDnnDeviceJson, kDnnTypeChar, static_cast<int64_t>(json.size()), json.data());
    if (status.ok()) status = made->finalize();
    EXPECT_TRUE(status.ok()) << status.message();
    return std::make_unique<Descriptor>(std::move(*made));
  }

  // "workspace 256" for the engine that is found, otherwise the reason why there is none.
  std::string planned(const Problem& problem, const Descriptor& device, int64_t alignment = 16) {
    Operations operations(*library, alignment);
    Status status = problem.describe(operations);
    if (!status.ok()) return status.message();
    auto graph = operations.graph(nullptr);
    if (graph.ok()) status = graph->finalize();
    if (!status.ok()) return status.message();
    Status refused;
    auto engine = find_engine(*library, {nullptr, &device}, *graph, problem.tensor_cores(),
                              int64_t{512} << 20, &refused);
    if (!engine.ok()) return engine.status().message();
    return *engine ? "workspace " + std::to_string((*engine)->workspace) : "none: " + refused.message();
  }

  std::unique_ptr<Library> library;
};

ConvolutionProblem convolution(DType dtype, bool last, std::vector<int64_t> x, std::vector<int64_t> w,
                               int64_t stride, int64_t pad, bool transposed = false, int64_t groups = 1) {
  ConvolutionProblem p;
  p.dtype = dtype;
  p.channels_last = last;
  p.transposed = transposed;
  p.x = std::move(x);
  p.w = std::move(w);
  const size_t axes = p.x.size() - 2;
  p.strides.assign(axes, stride);
  p.dilations.assign(axes, 1);
  p.low.assign(axes, pad);
  p.high.assign(axes, pad);
  p.y = {p.x[0], transposed ? p.w[1] * groups : p.w[0]};
  for (size_t i = 2; i < p.x.size(); ++i)
    p.y.push_back(transposed ? (p.x[i] - 1) * stride - 2 * pad + p.w[i]
                             : (p.x[i] + 2 * pad - p.w[i]) / stride + 1);
  return p;
}

TEST_F(CudnnPlans, Convolutions) {
  for (const Described& d : devices()) {
    const auto made = device(d.json);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
      for (const bool last : {true, false})
        for (const auto& p : {convolution(dtype, last, {8, 3, 224, 224}, {64, 3, 7, 7}, 2, 3),
                              convolution(dtype, last, {8, 64, 56, 56}, {64, 64, 3, 3}, 1, 1),
                              convolution(dtype, last, {8, 256, 14, 14}, {1024, 256, 1, 1}, 1, 0),
                              convolution(dtype, last, {1, 5, 9, 7}, {11, 5, 3, 3}, 1, 1),
                              convolution(dtype, last, {4, 32, 28, 28}, {32, 1, 3, 3}, 1, 1, false, 32),
                              convolution(dtype, last, {4, 32, 28, 28}, {64, 8, 3, 3}, 2, 1, false, 4),
                              convolution(dtype, last, {4, 64, 14, 14}, {64, 32, 2, 2}, 2, 0, true),
                              convolution(dtype, last, {4, 16, 1, 100}, {32, 16, 1, 5}, 1, 0),
                              convolution(dtype, last, {2, 8, 8, 10, 12}, {16, 8, 3, 3, 3}, 1, 1)}) {
          const std::string said = planned(p, *made);
          EXPECT_THAT(said, HasSubstr("workspace")) << d.name << ": " << p.text();
          std::cout << d.name << ": " << p.text() << ": " << said << "\n";
        }
  }
}

AttentionProblem attention(DType dtype, std::vector<int64_t> q, std::vector<int64_t> k, bool causal) {
  // The shape of a tensor in the layout [B,L,H,D].
  auto shape = [](const std::vector<int64_t>& dims) {
    return Operations::Shape{dims, {dims[1] * dims[2] * dims[3], dims[3], dims[1] * dims[3], 1}};
  };
  AttentionProblem p;
  p.dtype = dtype;
  p.causal = causal;
  p.q = p.y = shape(q);
  p.k = p.v = shape(k);
  return p;
}

TEST_F(CudnnPlans, Attention) {
  for (const Described& d : devices()) {
    const auto made = device(d.json);
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const bool causal : {false, true})
        for (const auto& p : {attention(dtype, {2, 12, 512, 64}, {2, 12, 512, 64}, causal),
                              attention(dtype, {1, 32, 333, 128}, {1, 8, 333, 128}, causal),
                              attention(dtype, {1, 2, 77, 256}, {1, 2, 4096, 256}, causal),
                              attention(dtype, {3, 4, 200, 8}, {3, 4, 7, 8}, causal),
                              attention(dtype, {1, 1, 1, 16}, {1, 1, 1, 16}, causal),
                              attention(dtype, {8, 12, 1, 64}, {8, 12, 1024, 64}, causal)}) {
          const std::string said = planned(p, *made);
          EXPECT_THAT(said, HasSubstr("workspace")) << d.name << ": " << p.text();
          std::cout << d.name << ": " << p.text() << ": " << said << "\n";
        }
  }
}

// Masks of either type, broadcast along any axes except the last, with any distance between rows.
TEST_F(CudnnPlans, Masks) {
  for (const Described& d : devices()) {
    const auto made = device(d.json);
    for (const auto& [p, type, mask, row] :
         {std::tuple{attention(DType::bf16, {2, 12, 512, 64}, {2, 12, 512, 64}, false), DType::bf16,
                     std::vector<int64_t>{2, 12, 512, 512}, 512},
          {attention(DType::f16, {2, 12, 512, 64}, {2, 12, 512, 64}, false),
           DType::f16,
           {1, 12, 512, 512},
           512},
          {attention(DType::bf16, {2, 12, 512, 64}, {2, 12, 512, 64}, false),
           DType::f32,
           {2, 1, 1, 512},
           512},
          {attention(DType::bf16, {1, 32, 333, 128}, {1, 8, 333, 128}, false),
           DType::bf16,
           {1, 1, 333, 333},
           333},
          {attention(DType::f16, {1, 32, 333, 128}, {1, 8, 333, 128}, false),
           DType::f32,
           {1, 32, 1, 333},
           336},
          {attention(DType::bf16, {1, 2, 77, 256}, {1, 2, 4096, 256}, false),
           DType::bf16,
           {1, 2, 77, 4096},
           4096},
          {attention(DType::f16, {3, 4, 200, 8}, {3, 4, 7, 8}, false), DType::f16, {3, 1, 200, 7}, 8},
          {attention(DType::bf16, {8, 12, 1, 64}, {8, 12, 1024, 64}, false),
           DType::bf16,
           {8, 1, 1, 1024},
           1024},
          {attention(DType::f16, {1, 1, 1, 16}, {1, 1, 1, 16}, false), DType::f16, {1, 1, 1, 1}, 1}}) {
      AttentionProblem masked = p;
      masked.mask = {mask, {mask[1] * mask[2] * row, mask[2] * row, row, 1}};
      masked.mask_dtype = type;
      const std::string said = planned(masked, *made);
      EXPECT_THAT(said, HasSubstr("workspace")) << d.name << ": " << masked.text();
      std::cout << d.name << ": " << masked.text() << ": " << said << "\n";
    }
  }
}

// The library does refuse some problems.
TEST_F(CudnnPlans, WhatItDoesNotTake) {
  const auto made = device(devices()[1].json);
  AttentionProblem p = attention(DType::bf16, {2, 12, 512, 36}, {2, 12, 512, 36}, false);
  EXPECT_THAT(planned(p, *made), testing::Not(HasSubstr("workspace")));
  p = attention(DType::f32, {2, 12, 512, 64}, {2, 12, 512, 64}, false);
  EXPECT_EQ(planned(p, *made), "none: ");  // there are engines only with TF32
  ConvolutionProblem c = convolution(DType::bf16, true, {8, 64, 56, 56}, {64, 64, 3, 3}, 1, 1);
  c.y[2] = 7;
  EXPECT_THAT(planned(c, *made), testing::Not(HasSubstr("workspace")));
}

}  // namespace
}  // namespace tenon::cudnn
