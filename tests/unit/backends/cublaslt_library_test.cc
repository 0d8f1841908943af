// A cuBLASLt that is missing, incomplete, too old or failing, with the mock (cublaslt_mock.cc). With NVIDIA's own library, if one is
// found, also makes descriptors and reads them back, which needs no GPU. cublaslt_header.cc compares declarations with NVIDIA's
// header.
#include "backends/nvidia/cublaslt/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "backends/nvidia/device/libraries.h"
#include "tests/mocks/cublaslt/cublaslt_mock.h"
#include "tests/mocks/cuda/cuda_mock.h"
#include "tests/support/library_help.h"
#include "tests/support/paths.h"

namespace tenon::cublaslt {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

LibrarySearch only_file(const std::string& soname) { return {"cuBLASLt", {soname}, "", {}, ""}; }
const CublasLtMock& lt() { return CublasLtMock::get(); }

TEST(CublasLtLibrary, SaysWhereItLooked) {
  const auto none = Library::open(only_file("libcublasLt_that_is_not_there.so.13"));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::environment);
  EXPECT_EQ(none.status().message(), "cuBLASLt was not found; tried libcublasLt_that_is_not_there.so.13");
  const Variable variable("TENON_CUBLASLT");
  variable.set("off");
  EXPECT_EQ(Library::open(cuda::cublaslt_search()).status().message(), "cuBLASLt is off: TENON_CUBLASLT=off");
  variable.set(kCublasltMock);
  const auto found = Library::open(cuda::cublaslt_search());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)->path(), kCublasltMock);
  EXPECT_EQ((*found)->version(), 130002u);
  EXPECT_EQ(cuda::release_text((*found)->version()), "13.0.2");
}

TEST(CublasLtLibrary, NamesTheFunctionItLacks) {
  constexpr const char* functions[] = {
#define X(name, ...) #name,
      TENON_CUBLASLT_FUNCTIONS(X)
#undef X
          "cublasLtGetVersion",
      "cublasLtGetStatusName", "cublasLtGetStatusString"};
  check_lacking(kCublasltMock, functions,
                [](const std::string& path) { return Library::open(only_file(path)); });
}

TEST(CublasLtLibrary, TooOld) {
  lt().set("version", 111103);
  const auto old = Library::open(only_file(kCublasltMock));
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.status().message(),
            std::string("cuBLASLt ") + kCublasltMock + " is of version 11.11.3; 12.0.0 or newer is needed");
  lt().set("version", 120000);
  EXPECT_TRUE(Library::open(only_file(kCublasltMock)).ok());
  lt().reset();
}

TEST(CublasLtLibrary, FailuresAreInItsWords) {
  const auto library = Library::open(only_file(kCublasltMock));
  ASSERT_TRUE(library.ok());
  const Status failed = (*library)->failure("cublasLtCreate", 1);
  EXPECT_EQ(failed.code(), Code::environment);
  EXPECT_EQ(failed.message(),
            "cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED (1): the library was not initialized");
  EXPECT_EQ((*library)->failure("cublasLtMatmul", 4711).message(), "cublasLtMatmul: status (4711)");
}

TEST(CublasLtLibrary, HandleOfADevice) {
  setenv("TENON_CUDA_DRIVER", kCudaMock, 1);
  CudaMock::get().reset();
  const auto library = Library::open(only_file(kCublasltMock));
  const auto driver = cuda::Driver::open({"the CUDA driver", {kCudaMock}, "", {}, ""});
  ASSERT_TRUE(library.ok() && driver.ok());
  const auto device = cuda::Device::open(**driver, 0);
  ASSERT_TRUE(device.ok());
  {
    const auto handle = Handle::open(**library, **device);
    ASSERT_TRUE(handle.ok()) << handle.status().message();
    EXPECT_STREQ(lt().leaks(), "1 handles alive\n");
  }
  EXPECT_STREQ(lt().leaks(), "");
  lt().fail("cublasLtCreate", 1, kLtInternalError);
  EXPECT_EQ(Handle::open(**library, **device).status().message(),
            "cublasLtCreate: CUBLAS_STATUS_INTERNAL_ERROR (14)");
  CudaMock::get().fail("cuCtxGetCurrent", 1, 999);
  EXPECT_THAT(Handle::open(**library, **device).status().message(), HasSubstr("CUDA_ERROR_UNKNOWN (999)"));
  EXPECT_STREQ(lt().leaks(), "");
}

class RealCublasLt : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string path = nvidia_library(
        "TENON_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12"}, {"cu13/lib", "cublas/lib"});
    if (path.empty()) {
      std::cerr
          << "NVIDIA's cuBLASLt is not here: declarations are not tried on it (TENON_CUBLASLT names one)\n";
      GTEST_SKIP();
    }
    auto opened = Library::open(only_file(path));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(*opened);
    const auto file = SharedLibrary::open(only_file(path));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->resolve("cublasLtMatmulDescGetAttribute", matmul_get).ok());
    ASSERT_TRUE(file->resolve("cublasLtMatrixLayoutGetAttribute", layout_get).ok());
    ASSERT_TRUE(file->resolve("cublasLtMatmulPreferenceGetAttribute", preference_get).ok());
  }
  // Sets an attribute and reads it back; another number of bytes is refused.
  template <class Object, class T>
  static void round_trip(const LibraryFunction<Library, int(Object, int, const void*, size_t)>& set,
                         int (*get)(Object, int, void*, size_t, size_t*), Object object, int attribute,
                         T value) {
    SCOPED_TRACE(attribute);
    EXPECT_EQ(set.status_of(object, attribute, &value, sizeof value), kLtSuccess);
    T back{};
    size_t bytes = 0;
    EXPECT_EQ(get(object, attribute, &back, sizeof back, &bytes), kLtSuccess);
    EXPECT_EQ(bytes, sizeof value);
    EXPECT_EQ(back, value);
    const char longer[2 * sizeof value] = {};
    EXPECT_EQ(set.status_of(object, attribute, longer, sizeof longer), kLtInvalidValue);
    EXPECT_EQ(set.status_of(object, attribute, longer, sizeof value / 2), kLtInvalidValue);
  }

  std::unique_ptr<Library> library;
  int (*matmul_get)(LtMatmul, int, void*, size_t, size_t*) = nullptr;
  int (*layout_get)(LtLayout, int, void*, size_t, size_t*) = nullptr;
  int (*preference_get)(LtPreference, int, void*, size_t, size_t*) = nullptr;
};

TEST_F(RealCublasLt, NamesItsStatuses) {
  EXPECT_GE(library->version(), 120000u);
  for (const auto& [status, name] : {std::pair{kLtNotInitialized, "CUBLAS_STATUS_NOT_INITIALIZED"},
                                     {kLtAllocFailed, "CUBLAS_STATUS_ALLOC_FAILED"},
                                     {kLtInvalidValue, "CUBLAS_STATUS_INVALID_VALUE"},
                                     {kLtArchMismatch, "CUBLAS_STATUS_ARCH_MISMATCH"},
                                     {kLtExecutionFailed, "CUBLAS_STATUS_EXECUTION_FAILED"},
                                     {kLtInternalError, "CUBLAS_STATUS_INTERNAL_ERROR"},
                                     {kLtNotSupported, "CUBLAS_STATUS_NOT_SUPPORTED"}})
    EXPECT_THAT(library->failure("f", status).message(),
                HasSubstr(std::string("f: ") + name + " (" + std::to_string(status) + ")"));
}

TEST_F(RealCublasLt, MatmulDescriptors) {
  for (const auto& [compute, scale] :
       {std::pair<int, int>{kLtCompute32F, kLtF32}, {kLtComputeTf32, kLtF32}, {kLtCompute64F, kLtF64}}) {
    LtMatmul matmul = nullptr;
    ASSERT_TRUE(library->cublasLtMatmulDescCreate(&matmul, compute, scale).ok());
    const auto& set = library->cublasLtMatmulDescSetAttribute;
    round_trip<LtMatmul, int32_t>(set, matmul_get, matmul, kLtTransposeA, kLtTransposed);
    round_trip<LtMatmul, int32_t>(set, matmul_get, matmul, kLtTransposeB, kLtTransposed);
    for (uint32_t epilogue : {kLtNoEpilogue, uint32_t{kLtRelu}, uint32_t{kLtGelu}, uint32_t{kLtBias},
                              kLtRelu | kLtBias, kLtGelu | kLtBias})
      round_trip<LtMatmul, uint32_t>(set, matmul_get, matmul, kLtEpilogue, epilogue);
    round_trip<LtMatmul, const void*>(set, matmul_get, matmul, kLtBiasPointer, &matmul);
    EXPECT_TRUE(library->cublasLtMatmulDescDestroy(matmul).ok());
  }
}

TEST_F(RealCublasLt, Layouts) {
  for (int type : {kLtF32, kLtF64, kLtF16, kLtBf16}) {
    LtLayout layout = nullptr;
    ASSERT_TRUE(library->cublasLtMatrixLayoutCreate(&layout, type, 5, 7, 9).ok());
    uint32_t type_back = 99;
    uint64_t rows = 0, columns = 0;
    int64_t ld = 0;
    size_t bytes = 0;
    EXPECT_EQ(layout_get(layout, 0, &type_back, sizeof type_back, &bytes), kLtSuccess);
    EXPECT_EQ(layout_get(layout, 2, &rows, sizeof rows, &bytes), kLtSuccess);
    EXPECT_EQ(layout_get(layout, 3, &columns, sizeof columns, &bytes), kLtSuccess);
    EXPECT_EQ(layout_get(layout, 4, &ld, sizeof ld, &bytes), kLtSuccess);
    EXPECT_EQ(std::tuple(type_back, rows, columns, ld),
              std::tuple(static_cast<uint32_t>(type), uint64_t{5}, uint64_t{7}, int64_t{9}));
    round_trip<LtLayout, int32_t>(library->cublasLtMatrixLayoutSetAttribute, layout_get, layout,
                                  kLtBatchCount, 3);
    round_trip<LtLayout, int64_t>(library->cublasLtMatrixLayoutSetAttribute, layout_get, layout,
                                  kLtBatchStride, int64_t{1} << 33);
    EXPECT_TRUE(library->cublasLtMatrixLayoutDestroy(layout).ok());
  }
}

TEST_F(RealCublasLt, Preferences) {
  LtPreference preference = nullptr;
  ASSERT_TRUE(library->cublasLtMatmulPreferenceCreate(&preference).ok());
  const auto& set = library->cublasLtMatmulPreferenceSetAttribute;
  uint32_t mask = 0;
  size_t bytes = 0;
  EXPECT_EQ(preference_get(preference, kLtReductionMask, &mask, sizeof mask, &bytes), kLtSuccess);
  EXPECT_EQ(mask, kLtAnyReduction);  // the library's default
  round_trip<LtPreference, uint64_t>(set, preference_get, preference, kLtMaxWorkspace, 32 << 20);
  round_trip<LtPreference, uint32_t>(set, preference_get, preference, kLtReductionMask,
                                     kLtReductionInComputeType);
  for (int attribute : {kLtAlignmentA, kLtAlignmentB, kLtAlignmentC, kLtAlignmentD}) {
    uint32_t alignment = 0;
    EXPECT_EQ(preference_get(preference, attribute, &alignment, sizeof alignment, &bytes), kLtSuccess);
    EXPECT_EQ(alignment, 256u);  // the library's default
    round_trip<LtPreference, uint32_t>(set, preference_get, preference, attribute, 16);
  }
  EXPECT_TRUE(library->cublasLtMatmulPreferenceDestroy(preference).ok());
}

TEST_F(RealCublasLt, NoHandleWithoutAGpu) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a GPU";
  LtHandle handle = nullptr;
  EXPECT_THAT(library->cublasLtCreate(&handle).message(),
              testing::StartsWith("cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED (1)"));
}

}  // namespace
}  // namespace tenon::cublaslt
