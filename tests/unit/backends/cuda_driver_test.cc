// A CUDA driver that is missing, incomplete, too old or failing. Devices, contexts and libraries on the mock driver (cuda_mock.cc),
// with the failure of every call. cuda_header.cc compares declarations with NVIDIA's header.
#include "backends/nvidia/device/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/nvidia/device/device.h"
#include "backends/nvidia/device/report.h"
#include "jit/cuda/nvrtc.h"
#include "tests/mocks/cuda/cuda_mock.h"
#include "tests/support/library_help.h"
#include "tests/support/paths.h"

namespace tenon::cuda {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const CudaMock& mock() { return CudaMock::get(); }

LibrarySearch only(const std::string& soname) { return {"the CUDA driver", {soname}, "", {}, ""}; }
LibrarySearch mocked() { return only(kCudaMock); }

constexpr const char* kFunctions[] = {
#define X(name, ...) #name,
    TENON_CUDA_DRIVER(X)
#undef X
};

std::string named(const char* function, int code) {
  return function + std::string(": CUDA_ERROR_UNKNOWN (") + std::to_string(code) + "): unknown error";
}

class CudaDriver : public testing::Test {
 protected:
  void SetUp() override { mock().reset(); }
  void TearDown() override {
    EXPECT_STREQ(mock().leaks(), "");
    mock().reset();
  }
  // Opens the mock, which cannot fail.
  static std::unique_ptr<Driver> driver() {
    auto opened = Driver::open(mocked());
    TENON_CHECK(opened.ok(), opened.status().message());
    return std::move(*opened);
  }
  static std::unique_ptr<Device> device(const Driver& driver, int ordinal = 0) {
    auto opened = Device::open(driver, ordinal);
    TENON_CHECK(opened.ok(), opened.status().message());
    return std::move(*opened);
  }
};

TEST(CudaNoDriver, SaysWhereItLooked) {
  const auto none = Driver::open(only("libcuda_that_is_not_there.so.1"));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::environment);
  EXPECT_THAT(none.status().message(),
              HasSubstr("the CUDA driver was not found; tried libcuda_that_is_not_there.so.1"));

  const Variable variable("TENON_CUDA_DRIVER");
  variable.set("/nowhere/libcuda.so.1");
  const auto nowhere = Driver::open(Driver::search());
  EXPECT_THAT(nowhere.status().message(), HasSubstr("/nowhere/libcuda.so.1"));
  variable.set("off");
  EXPECT_EQ(Driver::open(Driver::search()).status().message(),
            "the CUDA driver is off: TENON_CUDA_DRIVER=off");
  variable.set(kCudaMock);
  const auto found = Driver::open(Driver::search());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)->path(), kCudaMock);
}

TEST(CudaNoDriver, NamesTheFunctionItLacks) {
  check_lacking(kCudaMock, kFunctions, [](const std::string& path) { return Driver::open(only(path)); });
}

TEST_F(CudaDriver, TooOld) {
  mock().set("version=11080");
  const auto old = Driver::open(mocked());
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.status().code(), Code::environment);
  EXPECT_THAT(old.status().message(), EndsWith("libcuda_mock.so is of CUDA 11.8; 12.0 or newer is needed"));
  EXPECT_EQ(mock().calls("cuInit"), 0);
  mock().set("version=12000");
  EXPECT_TRUE(Driver::open(mocked()).ok());
}

TEST(CudaNoDriver, CompilerTooOld) {
  setenv("TENON_NVRTC_MOCK_MAJOR", "11", 1);
  const LibrarySearch where{"NVRTC", {kNvrtcMock}, "", {}, ""};
  const auto old = jit::Nvrtc::open(where);
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.status().code(), Code::environment);
  EXPECT_THAT(old.status().message(), EndsWith("libnvrtc_mock.so is of CUDA 11.0; 12.0 or newer is needed"));
  setenv("TENON_NVRTC_MOCK_MAJOR", "12", 1);
  EXPECT_TRUE(jit::Nvrtc::open(where).ok());
  unsetenv("TENON_NVRTC_MOCK_MAJOR");
}

TEST_F(CudaDriver, NoDevice) {
  mock().set("devices=0");
  EXPECT_EQ(Driver::open(mocked()).status().message(),
            "cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected");
}

TEST_F(CudaDriver, OpensWithoutAContext) {
  mock().set("devices=2");
  const auto d = driver();
  EXPECT_EQ(d->version(), 13000);
  EXPECT_EQ(version_text(d->version()), "13.0");
  EXPECT_EQ(d->devices(), 2);
  EXPECT_STREQ(mock().log(), "cuDriverGetVersion\ncuInit\ncuDeviceGetCount\n");
}

TEST_F(CudaDriver, FailuresAreInTheDriversWords) {
  const auto d = driver();
  EXPECT_EQ(d->failure("cuMemAllocFromPoolAsync", 2).code(), Code::environment);
  EXPECT_EQ(d->failure("cuMemAllocFromPoolAsync", 2).message(),
            "cuMemAllocFromPoolAsync: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
  EXPECT_EQ(d->failure("cuInit", 4711).message(), "cuInit: error 4711");
}

// Every function fails before it reads its arguments, which are null here.
TEST_F(CudaDriver, EveryFunctionNamesItself) {
  const auto d = driver();
  auto fails = [&](const auto& function, const char* name, auto... nothing) {
    mock().fail(name, 1, 999);
    const Status failed = function(nothing...);
    EXPECT_EQ(failed.message(), named(name, 999));
    mock().fail(name, 1, 999);
    EXPECT_EQ(function.status_of(nothing...), 999);
  };
  auto with_nothing = [&]<class... A>(const LibraryFunction<Driver, int(A...)>& function, const char* name) {
    fails(function, name, A{}...);
  };
#define X(name, ...) \
  if (std::string(#name).find("cuGetError") != 0) with_nothing(d->name, #name);
  TENON_CUDA_DRIVER(X)
#undef X
}

TEST_F(CudaDriver, DeviceIsDescribed) {
  mock().set("devices=2");
  const auto d = driver();
  const auto made = device(*d, 1);
  const jit::CudaDevice& h200 = made->description();
  EXPECT_EQ(h200.name, "Mock 1");
  EXPECT_EQ(h200.architecture, 90);
  EXPECT_EQ(h200.multiprocessors, 132);
  EXPECT_EQ(h200.threads_per_multiprocessor, 2048);
  EXPECT_EQ(h200.registers, 65536);
  EXPECT_EQ(h200.shared_bytes, 232448);
  EXPECT_EQ(h200.bytes_in_flight >> 10, 45);
  EXPECT_STREQ(mock().leaks(), "context C1 is retained 1 times\n");
  mock().set("clock=2619000 width=5120");  // as an H100
  EXPECT_EQ(describe(*d, 0)->bytes_in_flight >> 10, 31);
  mock().set("clock=0");
  EXPECT_EQ(describe(*d, 0)->bytes_in_flight, jit::CudaDevice().bytes_in_flight);
}

TEST_F(CudaDriver, DevicesThatCannotBeUsed) {
  const auto d = driver();
  for (int ordinal : {-1, 1}) {
    const auto none = Device::open(*d, ordinal);
    EXPECT_EQ(none.status().code(), Code::invalid);
    EXPECT_EQ(none.status().message(), "there is no GPU " + std::to_string(ordinal) + ": the driver has 1");
  }
  mock().set("architecture=75");
  const auto old = Device::open(*d, 0);
  EXPECT_EQ(old.status().code(), Code::unsupported);
  EXPECT_EQ(old.status().message(), "Mock 0 is an sm_75; sm_80 or newer is needed");
  EXPECT_EQ(mock().calls("cuDevicePrimaryCtxRetain"), 0);
}

CuContext context_now(const Driver& d) {
  CuContext now = nullptr;
  EXPECT_TRUE(d.cuCtxGetCurrent(&now).ok());
  return now;
}

TEST_F(CudaDriver, CurrentPushesOnlyWhatIsNotCurrent) {
  mock().set("devices=2");
  const auto d = driver();
  const auto a = device(*d, 0), b = device(*d, 1);
  {
    const Current outer(*a);
    EXPECT_TRUE(outer.status().ok());
    EXPECT_EQ(context_now(*d), a->context());
    EXPECT_EQ(mock().calls("cuCtxPushCurrent_v2"), 1);
    {
      const Current same(*a);
      EXPECT_EQ(mock().calls("cuCtxPushCurrent_v2"), 1);
    }
    EXPECT_EQ(context_now(*d), a->context());
    {
      const Current other(*b);
      EXPECT_EQ(context_now(*d), b->context());
    }
    EXPECT_EQ(context_now(*d), a->context());
  }
  EXPECT_EQ(context_now(*d), nullptr);
}

TEST_F(CudaDriver, LibraryGivesLoadedFunctions) {
  const auto d = driver();
  const auto gpu = device(*d);
  const auto bad = Library::load(*gpu, "nonsense");
  EXPECT_THAT(bad.status().message(), StartsWith("cuLibraryLoadData: CUDA_ERROR_INVALID_IMAGE (200)"));
  {
    const auto library = Library::load(*gpu, "TENONLIST:small=p8,large");
    ASSERT_TRUE(library.ok()) << library.status().message();
    EXPECT_TRUE((*library)->function("small").ok());
    EXPECT_EQ(mock().calls("cuKernelSetAttribute"), 0);
    EXPECT_TRUE((*library)->function("large", 200 << 10).ok());
    EXPECT_THAT(mock().log(), HasSubstr("cuKernelSetAttribute large 8 = 204800 on 0\n"));
    EXPECT_THAT(mock().log(), HasSubstr("cuKernelGetFunction large in C0\n"));
    EXPECT_EQ((*library)->function("none").status().message(),
              "kernel none: cuLibraryGetKernel: CUDA_ERROR_NOT_FOUND (500): named symbol not found");
    EXPECT_THAT(
        (*library)->function("large", 300 << 10).status().message(),
        StartsWith(
            "kernel large with 307200 shared bytes: cuKernelSetAttribute: CUDA_ERROR_INVALID_VALUE (1)"));
    EXPECT_STREQ(mock().leaks(), "context C0 is retained 1 times\nlibrary L1 is alive\n");
  }
  EXPECT_STREQ(mock().leaks(), "context C0 is retained 1 times\n");
}

// Uses the wrappers as the back end does, from the driver to a launch.
Status launch_once() {
  TENON_ASSIGN(const auto driver, Driver::open(mocked()));
  TENON_ASSIGN(const auto gpu, Device::open(*driver, 0));
  TENON_ASSIGN(const auto library, Library::load(*gpu, "TENONLIST:fill=p8"));
  TENON_ASSIGN(const CuFunction fill, library->function("fill", 100 << 10));
  const Current current(*gpu);
  TENON_TRY(current.status());
  void* address = nullptr;
  int64_t count = 7;
  void* arguments[] = {&address, &count};
  return driver->cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 100 << 10, nullptr, arguments, nullptr);
}

TEST_F(CudaDriver, EveryCallFailsInTurn) {
  ASSERT_TRUE(launch_once().ok());
  std::vector<std::pair<const char*, int>> calls;
  for (const char* function : kFunctions)
    if (std::string(function) != "cuThreadExchangeStreamCaptureMode")  // refuses only wrong modes
      calls.emplace_back(function, mock().calls(function));
  int failed = 0;
  for (const auto& [function, times] : calls)
    for (int nth = 1; nth <= times; ++nth) {
      SCOPED_TRACE(function + std::string(", call ") + std::to_string(nth));
      mock().reset();
      mock().set("devices=2");
      const auto other_driver = driver();
      const auto other = device(*other_driver, 1);
      const Current host(*other);  // the framework has made the context of another device current
      const std::string before = mock().leaks();
      mock().fail(function, nth, 999);
      const Status status = launch_once();
      EXPECT_EQ(mock().leaks(), before);
      EXPECT_EQ(context_now(*other_driver), other->context());
      const std::string name = function;
      const bool gives_back =
          name == "cuDevicePrimaryCtxRelease_v2" || name == "cuCtxPopCurrent_v2" || name == "cuLibraryUnload";
      const bool guessed = name == "cuDeviceGetAttribute" && nth > 6;  // the bytes in flight have a default
      EXPECT_EQ(status.ok(), gives_back || guessed) << status.message();
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), Code::environment);
      EXPECT_THAT(status.message(), EndsWith(named(function, 999)));
      ++failed;
    }
  EXPECT_GE(failed, 18);
}

std::string line_of(const std::vector<ReportLine>& lines, const std::string& label) {
  for (const ReportLine& line : lines)
    if (line.label == label) return line.text;
  return "no line " + label;
}

// The process opens its driver once: this test is the first to do so, with TENON_CUDA_DRIVER.
TEST(CudaReport, TellsWhyTheGpuIsOff) {
  setenv("TENON_CUDA_DRIVER", "/nowhere", 1);
  for (const char* other : {"TENON_NVRTC", "TENON_CUBLASLT", "TENON_CUDNN"}) setenv(other, "off", 1);
  const auto lines = report();
  EXPECT_EQ(line_of(lines, "GPU"), "off: no CUDA driver");
  EXPECT_EQ(line_of(lines, "CUDA driver"), "the CUDA driver is not where TENON_CUDA_DRIVER says: /nowhere");
  EXPECT_EQ(line_of(lines, "GPU 0"), "no line GPU 0");
  EXPECT_EQ(line_of(lines, "NVRTC"), "NVRTC is off: TENON_NVRTC=off");
  EXPECT_EQ(line_of(lines, "cuBLASLt"), "cuBLASLt is off: TENON_CUBLASLT=off");
  EXPECT_EQ(line_of(lines, "cuDNN"), "cuDNN is off: TENON_CUDNN=off");
  EXPECT_EQ(lines.size(), 5u);
}

}  // namespace
}  // namespace tenon::cuda
