// Where optional libraries are found (shared_library.h): in the directories of Python packages, as a copy that is loaded already, and
// with the libraries that must be loaded beside them. Each case runs in its own process with made-up libraries.
#include "src/base/shared_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "backends/nvidia/device/libraries.h"
#include "jit/cuda/nvrtc.h"
#include "tests/support/library_help.h"
#include "tests/support/paths.h"

namespace tenon {

void PrintTo(const LibrarySearch& search, std::ostream* out) { *out << search.what; }

namespace {

namespace fs = std::filesystem;

constexpr const char* kBuiltins = "libnvrtc-builtins.so.13.0";

// A directory with libraries that are empty except for their names.
class SharedLibraries : public testing::TestWithParam<LibrarySearch> {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tenon-libraries-XXXXXX";
    root = mkdtemp(name);
    for (const char* variable : {"TENON_NVRTC", "TENON_CUBLASLT", "TENON_CUDNN"}) unsetenv(variable);
  }
  void TearDown() override { fs::remove_all(root); }

  std::string make(const std::string& folder, const std::string& soname) const {
    const std::string path = root / folder / soname;
    fs::create_directories(root / folder);
    const std::string command =
        std::string(kCompiler) + " -shared -nostdlib -x c++ /dev/null -Wl,-soname," + soname + " -o " + path;
    TENON_CHECK(std::system(command.c_str()) == 0, command);
    return path;
  }
  static void load(const std::string& path) {
    TENON_CHECK(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), dlerror());
  }
  static bool loaded(const std::string& soname) {
    return dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr;
  }
  // Ends the process, with status 0 if `path` is found and its companion is loaded with it.
  [[noreturn]] static void expect(const std::string& path) {
    const auto found = SharedLibrary::open(GetParam());
    const std::string got = found.ok() ? found->path() : found.status().message();
    std::fprintf(stderr, "%s\n", got.c_str());
    if (got == path && !GetParam().beside.empty() && !loaded(kBuiltins))
      std::fprintf(stderr, "without %s\n", kBuiltins);
    else if (got == path)
      std::exit(0);
    std::exit(1);
  }
  static testing::ExitedWithCode well() { return testing::ExitedWithCode(0); }

  fs::path root;
};

// Finds the nvidia directories beside a library that was loaded from the packages of a Python.
TEST_P(SharedLibraries, OfPythonPackages) {
  const std::string packages = "venv/lib/python3.11/site-packages/";
  const std::string torch = make(packages + "torch/lib", "libtenon_test_torch.so");
  for (const std::string& folder : GetParam().wheel_folders)
    for (const std::string& soname : GetParam().sonames) {
      const std::string path = make(packages + folder, soname);
      make(packages + folder, kBuiltins);
      EXPECT_EXIT((load(torch), expect(path)), well(), "") << path;
      fs::remove_all(root / packages / folder);
    }
}

// A library that is loaded already is used, although Python packages have one too, since a process must not have two.
TEST_P(SharedLibraries, LoadedAlready) {
  const std::string packages = "lib/python3/dist-packages/";
  const std::string torch = make(packages + "torch/lib", "libtenon_test_torch.so");
  for (const std::string& soname : GetParam().sonames) {
    make(packages + GetParam().wheel_folders[0], soname);
    const std::string path = make("elsewhere", soname);
    make("elsewhere", kBuiltins);
    EXPECT_EXIT((load(torch), load(path), expect(path)), well(), "") << path;
  }
}

TEST_P(SharedLibraries, OfCudaHome) {
  const std::string soname = GetParam().sonames[0];
  const std::string path = make("lib64", soname);
  make("lib64", kBuiltins);
  auto look = [&] {
    if (dlopen(soname.c_str(), RTLD_NOW)) std::exit(0);  // the loader finds one, which comes first
    setenv("CUDA_HOME", root.c_str(), 1);
    expect(path);
  };
  EXPECT_EXIT(look(), well(), "");
}

INSTANTIATE_TEST_SUITE_P(All, SharedLibraries,
                         testing::Values(jit::Nvrtc::search(), cuda::cublaslt_search(), cuda::cudnn_search()),
                         [](const auto& info) { return info.param.what; });

}  // namespace
}  // namespace tenon
