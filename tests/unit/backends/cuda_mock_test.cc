// Tests of the mock driver (cuda_mock.cc), on which tests of the GPU's host side rely: it runs launches, keeps what graphs keep, and
// finds mistakes that a driver would refuse or never report.
#include "tests/mocks/cuda/cuda_mock.h"
#include "tests/support/paths.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backends/nvidia/device/device.h"

namespace tenon::cuda {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const CudaMock& mock() { return CudaMock::get(); }

template <class T>
T must(Result<T> result) {
  TENON_CHECK(result.ok(), result.status().message());
  return std::move(*result);
}

constexpr unsigned kThreads = 128;
const auto kStream = reinterpret_cast<CuStream>(3);

class MockDriver : public testing::Test {
 protected:
  void SetUp() override {
    mock().reset();
    mock().set("devices=2");
    driver = must(Driver::open({"the CUDA driver", {kCudaMock}, "", {}, ""}));
    gpu = must(Device::open(*driver, 0));
    current = std::make_unique<Current>(*gpu);
    library = must(Library::load(*gpu, std::string("TENONSO:") + kCudaMock));
    count = must(library->function("count"));
  }
  void TearDown() override {
    library.reset();
    current.reset();
    gpu.reset();
    mock().reset();
  }
  CuAddress allocate(size_t bytes) {
    CuAddress memory = 0;
    EXPECT_TRUE(driver->cuMemAlloc_v2(&memory, bytes).ok());
    return memory;
  }
  std::vector<float> read(CuAddress memory, size_t n) {
    std::vector<float> got(n);
    EXPECT_TRUE(driver->cuMemcpyDtoHAsync_v2(got.data(), memory, n * sizeof(float), kStream).ok());
    return got;
  }
  Status launch(CuFunction function, CuAddress memory, int64_t n, unsigned threads = kThreads,
                unsigned shared = 0) {
    void* arguments[] = {&memory, &n};
    return driver->cuLaunchKernel(function, 2, 1, 1, threads, 1, 1, shared, kStream, arguments, nullptr);
  }
  std::string last_line() {
    const std::string log = mock().log();
    return log.substr(log.rfind('\n', log.size() - 2) + 1);
  }

  std::unique_ptr<Driver> driver;
  std::unique_ptr<Device> gpu;
  std::unique_ptr<Current> current;
  std::unique_ptr<Library> library;
  CuFunction count = nullptr;
};

TEST_F(MockDriver, RunsAndWritesDownLaunches) {
  const CuAddress memory = allocate(5 * sizeof(float));
  EXPECT_EQ(memory % 256, 0u);
  mock().order(2);
  ASSERT_TRUE(launch(count, memory + 4, 3).ok());
  EXPECT_EQ(last_line(), "cuLaunchKernel count grid 2 1 1 block 128 1 1 shared 0 (M1+4, 3) stream 3\n");
  const std::vector<float> got = read(memory, 5);
  EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[4]));
  EXPECT_EQ(got[3], 2002.0f);
  EXPECT_TRUE(driver->cuMemsetD8Async(memory, 0, 20, kStream).ok());
  EXPECT_EQ(read(memory, 5)[4], 0.0f);
  EXPECT_TRUE(driver->cuMemFreeAsync(memory, kStream).ok());
}

// Bytes of the host have arrived after a wait for the stream, and for work behind the copy on the same stream.
TEST_F(MockDriver, CopiesTakeTheirTime) {
  const CuAddress memory = allocate(4);
  const auto other = reinterpret_cast<CuStream>(4);
  float one = 1;
  auto copy = [&] { return driver->cuMemcpyHtoDAsync_v2(memory, &one, sizeof one, other); };
  ASSERT_TRUE(copy().ok());
  EXPECT_TRUE(std::isnan(read(memory, 1)[0]));
  EXPECT_TRUE(driver->cuStreamSynchronize(kStream).ok());
  EXPECT_TRUE(std::isnan(read(memory, 1)[0]));
  EXPECT_TRUE(driver->cuStreamSynchronize(other).ok());
  EXPECT_EQ(read(memory, 1)[0], 1);
  one = 2;
  ASSERT_TRUE(copy().ok());
  EXPECT_EQ(read(memory, 1)[0], 1);
  EXPECT_TRUE(driver->cuMemcpyDtoHAsync_v2(&one, memory, sizeof one, other).ok());
  EXPECT_EQ(one, 2);
}

TEST_F(MockDriver, SeesWhatKernelsDoWrong) {
  const CuAddress memory = allocate(20);
  EXPECT_THAT(launch(must(library->function("broken")), memory, 0).message(), HasSubstr("LAUNCH_FAILED"));
  EXPECT_THAT(mock().leaks(), HasSubstr("broken: block 0 thread 3: waits\n"));
  EXPECT_THAT(launch(count, memory, 6).message(), HasSubstr("ILLEGAL_ADDRESS"));
  EXPECT_THAT(mock().leaks(), HasSubstr("M1 of 20 bytes is written at +20, after count\n"));
}

TEST_F(MockDriver, RefusesWhatADriverRefuses) {
  const CuAddress memory = allocate(20);
  float there[6] = {};
  EXPECT_FALSE(launch(count, memory, 1, 1025).ok());
  EXPECT_FALSE(launch(count, memory, 1, 0).ok());
  EXPECT_FALSE(launch(count, memory, 1, 128, kCuDefaultSharedBytes + 1).ok());
  EXPECT_FALSE(launch(nullptr, memory, 1).ok());
  EXPECT_FALSE(driver->cuMemcpyDtoHAsync_v2(there, memory, 24, kStream).ok());
  EXPECT_FALSE(driver->cuMemcpyHtoDAsync_v2(memory + 4, there, 20, kStream).ok());
  EXPECT_FALSE(driver->cuMemsetD8Async(memory - 1, 0, 1, kStream).ok());
  EXPECT_THAT(mock().leaks(), HasSubstr("memory M1 of 20 bytes is not freed\n"));
  EXPECT_TRUE(driver->cuMemFreeAsync(memory, kStream).ok());
  EXPECT_FALSE(driver->cuMemFreeAsync(memory, kStream).ok());
  current.reset();
  EXPECT_THAT(launch(count, 0, 0).message(), HasSubstr("INVALID_CONTEXT"));
  mock().reset();
  int n = 0;
  EXPECT_THAT(driver->cuDeviceGetCount(&n).message(), HasSubstr("NOT_INITIALIZED"));
}

TEST_F(MockDriver, GraphsKeepTheirArguments) {
  const CuAddress a = allocate(64), b = allocate(64);
  CuAddress to = a;
  int64_t n = 2;
  void* arguments[] = {&to, &n};
  CuKernelNode kernel = {count, 1, 1, 1, 32, 1, 1, 0, arguments, nullptr, nullptr, nullptr};
  CuGraph graph = nullptr;
  CuGraphNode first = nullptr, second = nullptr;
  CuGraphExec exec = nullptr;
  ASSERT_TRUE(driver->cuGraphCreate(&graph, 0).ok());
  ASSERT_TRUE(driver->cuGraphAddKernelNode_v2(&first, graph, nullptr, 0, &kernel).ok());
  n = 3;
  ASSERT_TRUE(driver->cuGraphAddKernelNode_v2(&second, graph, &first, 1, &kernel).ok());
  EXPECT_EQ(last_line(),
            "cuGraphAddKernelNode_v2 G1 N2: count grid 1 1 1 block 32 1 1 shared 0 (M1, 3) after N1\n");
  ASSERT_TRUE(driver->cuGraphInstantiateWithFlags(&exec, graph, 0).ok());
  to = b;
  n = 5;
  ASSERT_TRUE(driver->cuGraphExecKernelNodeSetParams_v2(exec, second, &kernel).ok());
  n = 7;
  ASSERT_TRUE(driver->cuGraphLaunch(exec, kStream).ok());
  EXPECT_EQ(last_line(),
            "cuGraphLaunch X1 stream 3; count grid 1 1 1 block 32 1 1 shared 0 (M1, 2); "
            "count grid 1 1 1 block 32 1 1 shared 0 (M2, 5)\n");
  EXPECT_EQ(read(a, 3)[1], 1.0f);
  EXPECT_TRUE(std::isnan(read(a, 3)[2]));
  EXPECT_EQ(read(b, 5)[4], 4.0f);

  EXPECT_THAT(mock().leaks(), HasSubstr("graph G1 is alive\nexecutable X1 is alive\n"));
  ASSERT_TRUE(driver->cuGraphDestroy(graph).ok());
  EXPECT_FALSE(driver->cuGraphExecKernelNodeSetParams_v2(exec, second, &kernel).ok());
  library.reset();
  EXPECT_FALSE(driver->cuGraphLaunch(exec, kStream).ok());
  EXPECT_TRUE(driver->cuGraphExecDestroy(exec).ok());
  EXPECT_FALSE(driver->cuGraphExecDestroy(exec).ok());
}

TEST_F(MockDriver, CapturesForbid) {
  const CuAddress memory = allocate(16);
  mock().capture(kStream, 1);
  int status = 0;
  EXPECT_TRUE(driver->cuStreamIsCapturing(kStream, &status).ok());
  EXPECT_EQ(status, 1);
  ASSERT_TRUE(launch(count, memory, 4).ok());
  EXPECT_THAT(last_line(), EndsWith("(M1, 4) stream 3 captured\n"));
  EXPECT_TRUE(std::isnan(read(memory, 4)[0]));
  CuAddress more = 0;
  CuLibrary loaded = nullptr;
  const auto forbidden = HasSubstr("STREAM_CAPTURE_UNSUPPORTED");
  auto load = [&] {
    return driver->cuLibraryLoadData(&loaded, "TENONLIST:a", nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  EXPECT_THAT(driver->cuMemAlloc_v2(&more, 16).message(), forbidden);
  EXPECT_THAT(driver->cuStreamSynchronize(kStream).message(), forbidden);
  EXPECT_THAT(load().message(), forbidden);
  int mode = kCuRelaxedCapture;
  ASSERT_TRUE(driver->cuThreadExchangeStreamCaptureMode(&mode).ok());
  EXPECT_EQ(mode, 0);
  EXPECT_THAT(mock().leaks(), HasSubstr("mode of captures is 2"));
  EXPECT_TRUE(driver->cuMemAlloc_v2(&more, 16).ok());
  EXPECT_THAT(driver->cuStreamSynchronize(kStream).message(), forbidden);
  EXPECT_TRUE(load().ok());
  EXPECT_TRUE(driver->cuThreadExchangeStreamCaptureMode(&mode).ok());
  mock().capture(kStream, 0);
  EXPECT_TRUE(driver->cuStreamSynchronize(kStream).ok());
  EXPECT_TRUE(Library::load(*gpu, "TENONLIST:a").ok());
}

// A forbidden call of any thread invalidates the capture.
TEST_F(MockDriver, CapturesAreLost) {
  auto status = [&](CuStream stream) {
    int now = -1;
    const Status asked = driver->cuStreamIsCapturing(stream, &now);
    return asked.ok() ? std::to_string(now) : asked.message();
  };
  const auto legacy = static_cast<CuStream>(nullptr);
  CuContext context = nullptr;
  EXPECT_EQ(status(legacy), "0");
  mock().capture(kStream, 1);
  EXPECT_THAT(status(legacy), HasSubstr("STREAM_CAPTURE_IMPLICIT (906)"));
  EXPECT_EQ(status(kStream), "1");
  EXPECT_THAT(driver->cuStreamGetCtx(kStream, &context).message(),
              HasSubstr("STREAM_CAPTURE_UNSUPPORTED (900)"));
  EXPECT_EQ(status(kStream), "2");
  mock().capture(kStream, 1);
  CuAddress more = 0;
  EXPECT_FALSE(driver->cuMemAlloc_v2(&more, 16).ok());
  EXPECT_EQ(status(kStream), "2");
  mock().capture(kStream, 0);

  CuStream own = nullptr;
  CuGraph graph = nullptr;
  ASSERT_TRUE(driver->cuStreamCreate(&own, kCuNonBlocking).ok());
  ASSERT_TRUE(driver->cuStreamBeginCapture_v2(own, kCuRelaxedCapture).ok());
  EXPECT_FALSE(driver->cuStreamSynchronize(own).ok());
  EXPECT_THAT(driver->cuStreamEndCapture(own, &graph).message(),
              HasSubstr("STREAM_CAPTURE_INVALIDATED (901)"));
  EXPECT_EQ(graph, nullptr);
  EXPECT_TRUE(driver->cuStreamDestroy_v2(own).ok());
}

TEST_F(MockDriver, KnowsWhereMemoryAndStreamsAre) {
  const auto other = must(Device::open(*driver, 1));
  const CuAddress memory = allocate(16);
  float host[4] = {};
  const auto adopted = reinterpret_cast<CuAddress>(host);
  auto device_of = [&](CuAddress address) {
    int device = -1;
    return driver->cuPointerGetAttribute(&device, kCuPointerDeviceOrdinal, address).ok() ? device : -1;
  };
  EXPECT_EQ(device_of(memory + 8), 0);
  EXPECT_EQ(device_of(adopted), -1);
  mock().adopt(host, sizeof host, 1);
  EXPECT_EQ(device_of(adopted), 1);
  ASSERT_TRUE(launch(count, adopted, 4).ok());
  EXPECT_THAT(last_line(), HasSubstr("(H1, 4)"));
  EXPECT_EQ(host[3], 3.0f);
  mock().adopt(host, 0, 0);
  EXPECT_EQ(device_of(adopted), -1);

  CuContext context = nullptr;
  ASSERT_TRUE(driver->cuStreamGetCtx(kStream, &context).ok());
  EXPECT_EQ(context, gpu->context());
  mock().stream_device(kStream, 1);
  ASSERT_TRUE(driver->cuStreamGetCtx(kStream, &context).ok());
  EXPECT_EQ(context, other->context());
}

TEST_F(MockDriver, Events) {
  CuEvent begin = nullptr, end = nullptr;
  float milliseconds = -1;
  ASSERT_TRUE(driver->cuEventCreate(&begin, 0).ok());
  ASSERT_TRUE(driver->cuEventCreate(&end, 0).ok());
  ASSERT_TRUE(driver->cuEventRecord(begin, kStream).ok());
  EXPECT_FALSE(driver->cuEventElapsedTime(&milliseconds, begin, end).ok());
  ASSERT_TRUE(driver->cuEventRecord(end, kStream).ok());
  EXPECT_TRUE(driver->cuEventElapsedTime(&milliseconds, begin, end).ok());
  EXPECT_GE(milliseconds, 0);
  EXPECT_TRUE(driver->cuEventDestroy_v2(begin).ok());
  EXPECT_THAT(mock().leaks(), HasSubstr("event E2 is alive\n"));
}

// The smallest file with a section .text.softmax.
TEST_F(MockDriver, ReadsCubins) {
  const std::string names = std::string(1, '\0') + ".text.softmax" + std::string(1, '\0');
  Elf64_Ehdr head = {};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_shnum = 2;
  head.e_shstrndx = 1;
  head.e_shoff = sizeof head + 16;
  Elf64_Shdr text = {}, strings = {};
  text.sh_name = 1;
  strings.sh_offset = sizeof head;
  std::string cubin(reinterpret_cast<const char*>(&head), sizeof head);
  cubin += names + std::string(16 - names.size(), '\0');
  cubin.append(reinterpret_cast<const char*>(&text), sizeof text)
      .append(reinterpret_cast<const char*>(&strings), sizeof strings);
  const auto loaded = must(Library::load(*gpu, cubin));
  EXPECT_TRUE(launch(must(loaded->function("softmax")), 0, 0).ok());
  EXPECT_EQ(last_line(), "cuLaunchKernel softmax grid 2 1 1 block 128 1 1 shared 0 stream 3\n");
  EXPECT_THAT(loaded->function("soft").status().message(), HasSubstr("CUDA_ERROR_NOT_FOUND (500)"));
}

}  // namespace
}  // namespace tenon::cuda
