// A cuDNN that is missing, incomplete, too old or failing, with the mock (cudnn_mock.cc). Also asks NVIDIA's own library, if one is
// found, what it answers without a GPU. cudnn_header.cc compares declarations with NVIDIA's header; cudnn_plan_test.cc tests our
// graphs.
#include "backends/nvidia/cudnn/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "backends/nvidia/cudnn/handles.h"
#include "backends/nvidia/device/libraries.h"
#include "tests/mocks/cuda/cuda_mock.h"
#include "tests/mocks/cudnn/cudnn_mock.h"
#include "tests/support/library_help.h"
#include "tests/support/paths.h"

namespace tenon::cudnn {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

LibrarySearch only_file(const std::string& soname) { return {"cuDNN", {soname}, "", {}, ""}; }
const CudnnMock& dnn() { return CudnnMock::get(); }

TEST(CudnnLibrary, SaysWhereItLooked) {
  const auto none = Library::open(only_file("libcudnn_that_is_not_there.so.9"));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::environment);
  EXPECT_EQ(none.status().message(), "cuDNN was not found; tried libcudnn_that_is_not_there.so.9");
  const Variable variable("TENON_CUDNN");
  variable.set("off");
  EXPECT_EQ(Library::open(cuda::cudnn_search()).status().message(), "cuDNN is off: TENON_CUDNN=off");
  variable.set(kCudnnMock);
  const auto found = Library::open(cuda::cudnn_search());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)->path(), kCudnnMock);
  EXPECT_EQ((*found)->version(), 91901u);
  EXPECT_EQ(cuda::release_text((*found)->version()), "9.19.1");
}

// The variable may name a directory with the layout of the wheel in place of the library.
TEST(CudnnLibrary, OfAFolder) {
  char directory[] = "/tmp/tenon-cudnn-XXXXXX";
  ASSERT_TRUE(mkdtemp(directory));
  fs::create_symlink(kCudnnMock, std::string(directory) + "/libcudnn.so.9");
  const Variable variable("TENON_CUDNN");
  variable.set(directory);
  EXPECT_TRUE(Library::open(cuda::cudnn_search()).ok());
  fs::remove(std::string(directory) + "/libcudnn.so.9");
  EXPECT_EQ(Library::open(cuda::cudnn_search()).status().message(),
            "cuDNN is not where TENON_CUDNN says: " + std::string(directory) + "/libcudnn.so.9");
  fs::remove_all(directory);
}

TEST(CudnnLibrary, NamesTheFunctionItLacks) {
  constexpr const char* functions[] = {
#define X(name, ...) #name,
      TENON_CUDNN_FUNCTIONS(X)
#undef X
          "cudnnGetVersion",
      "cudnnGetErrorString", "cudnnGetLastErrorString"};
  check_lacking(kCudnnMock, functions,
                [](const std::string& path) { return Library::open(only_file(path)); });
}

TEST(CudnnLibrary, TooOld) {
  dnn().set("version", 8907);
  const auto old = Library::open(only_file(kCudnnMock));
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.status().message(),
            std::string("cuDNN ") + kCudnnMock + " is of version 8.9.7; 9.0.0 or newer is needed");
  dnn().set("version", 90000);
  EXPECT_TRUE(Library::open(only_file(kCudnnMock)).ok());
  dnn().reset();
}

TEST(CudnnLibrary, FailuresAreInItsWords) {
  dnn().reset();
  const auto library = Library::open(only_file(kCudnnMock));
  ASSERT_TRUE(library.ok());
  const Status failed = (*library)->failure("cudnnCreate", kDnnNotInitialized);
  EXPECT_EQ(failed.code(), Code::environment);
  EXPECT_EQ(failed.message(), "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (1001)");
  EXPECT_EQ((*library)->failure("cudnnBackendExecute", 4711).message(), "cudnnBackendExecute: status (4711)");
  // The message has the library's text about the last call.
  auto tensor = Descriptor::make(**library, kDnnTensor, "a tensor");
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->finalize().message(),
            "cudnnBackendFinalize of a tensor: CUDNN_STATUS_BAD_PARAM (2000): attribute 906 is missing");
  dnn().reset();
}

TEST(CudnnLibrary, Handles) {
  setenv("TENON_CUDA_DRIVER", kCudaMock, 1);
  CudaMock::get().reset();
  dnn().reset();
  const auto library = Library::open(only_file(kCudnnMock));
  const auto driver = cuda::Driver::open({"the CUDA driver", {kCudaMock}, "", {}, ""});
  ASSERT_TRUE(library.ok() && driver.ok());
  const auto device = cuda::Device::open(**driver, 0);
  ASSERT_TRUE(device.ok());
  {
    Handles handles(**library, **device);
    DnnHandle first = nullptr;
    {
      const auto one = handles.lease(), other = handles.lease();
      ASSERT_TRUE(one.ok() && other.ok());
      first = (*one)->raw();
      EXPECT_NE(first, (*other)->raw());
      EXPECT_STREQ(dnn().leaks(), "2 handles alive\n");
    }
    const auto again = handles.lease(), more = handles.lease();
    EXPECT_TRUE((*again)->raw() == first || (*more)->raw() == first);
    EXPECT_EQ(dnn().calls("cudnnCreate"), 2);
    dnn().fail("cudnnCreate", 1, kDnnInternalError);
    EXPECT_EQ(handles.lease().status().message(),
              "cudnnCreate: CUDNN_STATUS_INTERNAL_ERROR (4000): as planned");
  }
  EXPECT_STREQ(dnn().leaks(), "");
  {  // When kMost handles are leased, a thread waits for one.
    Handles handles(**library, **device);
    std::vector<Handles::Lease> leases;
    for (int i = 0; i < Handles::kMost; ++i) {
      auto one = handles.lease();
      ASSERT_TRUE(one.ok());
      EXPECT_EQ((*one)->number(), i);
      leases.push_back(std::move(*one));
    }
    std::atomic<int> got = -1;
    std::thread waits([&] {
      const auto one = handles.lease();
      got = one.ok() ? (*one)->number() : -2;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(got, -1);
    leases.erase(leases.begin() + 5);
    waits.join();
    EXPECT_EQ(got, 5);
    EXPECT_EQ(dnn().leaks(), std::to_string(Handles::kMost) + " handles alive\n");
  }
  EXPECT_STREQ(dnn().leaks(), "");
  CudaMock::get().fail("cuCtxGetCurrent", 1, 999);
  EXPECT_THAT(Handle::open(**library, **device, 0).status().message(), HasSubstr("CUDA_ERROR_UNKNOWN (999)"));
  EXPECT_STREQ(dnn().leaks(), "");
}

class RealCudnn : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string path = nvidia_library("TENON_CUDNN", {"libcudnn.so.9"}, {"cudnn/lib"});
    if (path.empty()) {
      std::cerr << "NVIDIA's cuDNN is not here: declarations are not tried on it (TENON_CUDNN names one)\n";
      GTEST_SKIP();
    }
    auto opened = Library::open(only_file(path));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(*opened);
  }
  std::unique_ptr<Library> library;
};

TEST_F(RealCudnn, NamesItsStatuses) {
  EXPECT_GE(library->version(), 90000u);
  for (const auto& [status, name] : {std::pair{kDnnNotInitialized, "CUDNN_STATUS_NOT_INITIALIZED"},
                                     {kDnnBadParam, "CUDNN_STATUS_BAD_PARAM"},
                                     {kDnnNotSupported, "CUDNN_STATUS_NOT_SUPPORTED"},
                                     {kDnnInternalError, "CUDNN_STATUS_INTERNAL_ERROR"},
                                     {kDnnExecutionFailed, "CUDNN_STATUS_EXECUTION_FAILED"}})
    EXPECT_THAT(library->failure("f", status).message(),
                StartsWith(std::string("f: ") + name + " (" + std::to_string(status) + ")"));
}

// The library checks descriptors.
TEST_F(RealCudnn, RefusesWhatDoesNotFit) {
  auto made = Descriptor::make(*library, kDnnTensor, "it");
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_FALSE(made->set(kDnnTensorDims, kDnnTypeFloat, 1.0f).ok());
  EXPECT_FALSE(made->set(kDnnForwardAlpha, kDnnTypeFloat, 1.0f).ok());
  EXPECT_FALSE(made->set(kDnnTensorId, kDnnTypeInt64, std::vector<int64_t>{1, 2}).ok());
}

TEST_F(RealCudnn, NoHandleWithoutAGpu) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a GPU";
  DnnHandle handle = nullptr;
  EXPECT_THAT(library->cudnnCreate(&handle).message(),
              StartsWith("cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (1001)"));
}

}  // namespace
}  // namespace tenon::cudnn
