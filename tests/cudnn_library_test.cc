// cuDNN that is not there, lacks something, is too old or fails, on the mock (cudnn_mock.cc); descriptors made with NVIDIA's own
// library where one is found, for which no GPU is needed. Declarations against NVIDIA's header: cudnn_header.cc.
#include "backends/cudnn/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "backends/cuda/libraries.h"
#include "backends/cudnn/handles.h"
#include "tests/cuda_mock.h"
#include "tests/cudnn_mock.h"
#include "tests/library_help.h"

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
  variable.set(TENON_CUDNN_MOCK);
  const auto found = Library::open(cuda::cudnn_search());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)->path(), TENON_CUDNN_MOCK);
  EXPECT_EQ((*found)->version(), 91901u);
  EXPECT_EQ(cuda::release_text((*found)->version()), "9.19.1");
}

// A folder of the wheel's form, in the place of the library's own name.
TEST(CudnnLibrary, OfAFolder) {
  char directory[] = "/tmp/tenon-cudnn-XXXXXX";
  ASSERT_TRUE(mkdtemp(directory));
  fs::create_symlink(TENON_CUDNN_MOCK, std::string(directory) + "/libcudnn.so.9");
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
  check_lacking(TENON_CUDNN_MOCK, functions,
                [](const std::string& path) { return Library::open(only_file(path)); });
}

TEST(CudnnLibrary, TooOld) {
  dnn().set("version", 8907);
  const auto old = Library::open(only_file(TENON_CUDNN_MOCK));
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.status().message(),
            "cuDNN " TENON_CUDNN_MOCK " is of version 8.9.7; 9.0.0 or newer is needed");
  dnn().set("version", 90000);
  EXPECT_TRUE(Library::open(only_file(TENON_CUDNN_MOCK)).ok());
  dnn().reset();
}

TEST(CudnnLibrary, FailuresAreInItsWords) {
  dnn().reset();
  const auto library = Library::open(only_file(TENON_CUDNN_MOCK));
  ASSERT_TRUE(library.ok());
  const Status failed = (*library)->failure("cudnnCreate", kDnnNotInitialized);
  EXPECT_EQ(failed.code(), Code::environment);
  EXPECT_EQ(failed.message(), "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (1001)");
  EXPECT_EQ((*library)->failure("cudnnBackendExecute", 4711).message(), "cudnnBackendExecute: status (4711)");
  // With what it says of the last call.
  auto tensor = Descriptor::make(**library, kDnnTensor, "a tensor");
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->finalize().message(),
            "cudnnBackendFinalize of a tensor: CUDNN_STATUS_BAD_PARAM (2000): attribute 906 is missing");
  dnn().reset();
}

TEST(CudnnLibrary, Handles) {
  setenv("TENON_CUDA_DRIVER", TENON_CUDA_MOCK, 1);
  CudaMock::get().reset();
  dnn().reset();
  const auto library = Library::open(only_file(TENON_CUDNN_MOCK));
  const auto driver = cuda::Driver::open({"the CUDA driver", {TENON_CUDA_MOCK}, "", {}, ""});
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
  {  // Where there are many of them a thread waits for one.
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

// NVIDIA's library: what TENON_CUDNN named when the test began, or that of the wheel in .venv.
constexpr int kDnnNoSublibrary = 1008;
class RealCudnn : public testing::Test {
 protected:
  static std::string find() {
    std::vector<std::string> folders{"/usr/local/cuda/lib64"};
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(TENON_SOURCE_DIR "/.venv/lib", ignored))
      folders.push_back(entry.path().string() + "/site-packages/nvidia/cudnn/lib");
    if (const char* given = std::getenv("TENON_CUDNN"); given && std::string(given) != "off") {
      if (!fs::is_directory(given)) return given;
      folders.insert(folders.begin(), given);
    }
    for (const std::string& folder : folders)
      if (fs::exists(folder + "/libcudnn.so.9", ignored)) return folder + "/libcudnn.so.9";
    return "";
  }
  void SetUp() override {
    static const std::string path = find();
    if (path.empty()) {
      std::cerr << "NVIDIA's cuDNN is not here: declarations are not tried on it (TENON_CUDNN names one)\n";
      GTEST_SKIP();
    }
    auto opened = Library::open(only_file(path));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(*opened);
  }
  Descriptor make(int type) {
    auto made = Descriptor::make(*library, type, "it");
    TENON_CHECK(made.ok(), made.status().message());
    return std::move(*made);
  }
  Descriptor tensor(int64_t id, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                    DnnDataType type) {
    Descriptor t = make(kDnnTensor);
    ok(t.set(kDnnTensorId, kDnnTypeInt64, id));
    ok(t.set(kDnnTensorDataType, kDnnTypeDataType, type));
    ok(t.set(kDnnTensorAlignment, kDnnTypeInt64, int64_t{16}));
    ok(t.set(kDnnTensorDims, kDnnTypeInt64, dims));
    ok(t.set(kDnnTensorStrides, kDnnTypeInt64, strides));
    finalize(t);
    return t;
  }
  // It loads its engines for that, which takes a driver; where there is none nothing is learnt of it.
  static void finalize(Descriptor& d) {
    const int status = d.finalize_status();
    if (status != kDnnNoSublibrary || fs::exists("/dev/nvidiactl"))
      ok(d.check("cudnnBackendFinalize", status));
  }
  static void ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

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

TEST_F(RealCudnn, TakesAConvolutionAsWeDescribeIt) {
  for (const auto& [type, compute] :
       {std::pair{kDnnF32, kDnnF32}, {kDnnF16, kDnnF32}, {kDnnBf16, kDnnF32}, {kDnnF64, kDnnF64}})
    for (const bool back : {false, true}) {
      SCOPED_TRACE(testing::Message() << type << (back ? " back" : ""));
      const Descriptor x = tensor(1, {2, 8, 7, 6}, {336, 1, 48, 8}, type);
      const Descriptor w = tensor(2, {16, 4, 3, 3}, {36, 1, 12, 4}, type);
      const Descriptor y = tensor(3, {2, 16, 4, 3}, {192, 1, 48, 16}, type);
      Descriptor convolution = make(kDnnConvolution);
      ok(convolution.set(kDnnConvolutionAxes, kDnnTypeInt64, int64_t{2}));
      ok(convolution.set(kDnnConvolutionCompute, kDnnTypeDataType, compute));
      ok(convolution.set(kDnnConvolutionModeIs, kDnnTypeConvolutionMode, kDnnCrossCorrelation));
      ok(convolution.set(kDnnConvolutionStrides, kDnnTypeInt64, std::vector<int64_t>{2, 2}));
      ok(convolution.set(kDnnConvolutionDilations, kDnnTypeInt64, std::vector<int64_t>{1, 1}));
      ok(convolution.set(kDnnConvolutionPaddingBefore, kDnnTypeInt64, std::vector<int64_t>{1, 1}));
      ok(convolution.set(kDnnConvolutionPaddingAfter, kDnnTypeInt64, std::vector<int64_t>{1, 0}));
      finalize(convolution);
      Descriptor operation = make(back ? kDnnConvolutionBackwardData : kDnnConvolutionForward);
      ok(operation.set(back ? kDnnBackwardConvolution : kDnnForwardConvolution, convolution));
      ok(operation.set(back ? kDnnBackwardDx : kDnnForwardX, x));
      ok(operation.set(back ? kDnnBackwardW : kDnnForwardW, w));
      ok(operation.set(back ? kDnnBackwardDy : kDnnForwardY, y));
      for (int factor :
           {back ? kDnnBackwardAlpha : kDnnForwardAlpha, back ? kDnnBackwardBeta : kDnnForwardBeta})
        type == kDnnF64 ? ok(operation.set(factor, kDnnTypeDouble, 1.0))
                        : ok(operation.set(factor, kDnnTypeFloat, 1.0f));
      finalize(operation);
    }
}

// It checks: what the descriptors above say is not taken unread.
TEST_F(RealCudnn, RefusesWhatDoesNotFit) {
  Descriptor t = make(kDnnTensor);
  EXPECT_FALSE(t.set(kDnnTensorDims, kDnnTypeFloat, 1.0f).ok());
  EXPECT_FALSE(t.set(kDnnForwardAlpha, kDnnTypeFloat, 1.0f).ok());
  EXPECT_FALSE(t.set(kDnnTensorId, kDnnTypeInt64, std::vector<int64_t>{1, 2}).ok());
}

TEST_F(RealCudnn, NoHandleWithoutAGpu) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a GPU";
  DnnHandle handle = nullptr;
  EXPECT_THAT(library->check("cudnnCreate", library->cudnnCreate(&handle)).message(),
              StartsWith("cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (1001)"));
}

}  // namespace
}  // namespace tenon::cudnn
