// NVRTC as a library: the errors if it or a part of it is missing, if another file has its name, or if the text is wrong; and the
// devices for which it makes code.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/nvidia/nvrtc_help.h"

namespace tenon::jit {
namespace {

namespace fs = std::filesystem;

TEST(Nvrtc, WrongTextComesWithTheLog) {
  NEEDS_NVRTC();
  auto built =
      (*nvrtc())->compile("extern \"C\" __global__ void f(float* p) { p[0] = undeclared; }", "f", 90);
  ASSERT_FALSE(built.ok());
  EXPECT_NE(built.status().message().find("\"undeclared\" is undefined"), std::string::npos)
      << built.status().message();
  auto old = (*nvrtc())->compile("extern \"C\" __global__ void f() {}", "f", 20);
  ASSERT_FALSE(old.ok());
}

TEST(Nvrtc, ArchitectureOfADevice) {
  NEEDS_NVRTC();
  EXPECT_EQ(*(*nvrtc())->architecture_for(90), 90);
  EXPECT_EQ(*(*nvrtc())->architecture_for(80), 80);
  auto none = (*nvrtc())->architecture_for(35);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("sm_35"), std::string::npos);
}

// ---- loading ----

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/tenon-nvrtc-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

LibrarySearch search_in(const fs::path& folder) {
  LibrarySearch s = Nvrtc::search();
  s.variable = "TENON_TEST_NVRTC";
  setenv("TENON_TEST_NVRTC", folder.c_str(), 1);
  return s;
}

TEST(Nvrtc, MissingLibrary) {
  const Folder empty;
  auto opened = Nvrtc::open(search_in(empty.path));
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find("libnvrtc.so.13"), std::string::npos) << opened.status().message();
  EXPECT_NE(opened.status().message().find("TENON_TEST_NVRTC"), std::string::npos)
      << opened.status().message();
  auto off = Nvrtc::open(search_in("off"));
  ASSERT_FALSE(off.ok());
  EXPECT_NE(off.status().message().find("off"), std::string::npos);
}

TEST(Nvrtc, NotALibrary) {
  const Folder folder;
  std::ofstream(folder.path / "libnvrtc.so.13") << "this is no library";
  auto opened = Nvrtc::open(search_in(folder.path));
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find((folder.path / "libnvrtc.so.13").string()), std::string::npos)
      << opened.status().message();
}

TEST(Nvrtc, AnotherLibraryUnderItsName) {
  const Folder folder;
  Dl_info here;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&std::getenv), &here), 0);  // libc
  fs::copy_file(here.dli_fname, folder.path / "libnvrtc.so.13");
  auto opened = Nvrtc::open(search_in(folder.path));
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find("has no nvrtcVersion"), std::string::npos)
      << opened.status().message();
}

TEST(Nvrtc, WithoutItsBuiltins) {
  NEEDS_NVRTC();
  // Runs in a child process, since this process has loaded the builtins already.
  const Folder folder;
  fs::copy_file((*nvrtc())->path(), folder.path / "libnvrtc.so.13");
  const pid_t child = fork();
  if (child == 0) {
    setenv("TENON_NVRTC", folder.path.c_str(), 1);
    setenv("TENON_NVRTC_CHILD", "1", 1);
    execl("/proc/self/exe", "nvrtc_library_test", "--gtest_filter=NvrtcChild.*", static_cast<char*>(nullptr));
    _exit(99);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
TEST(NvrtcChild, SaysWhatIsMissing) {
  if (!std::getenv("TENON_NVRTC_CHILD")) GTEST_SKIP() << "runs within WithoutItsBuiltins";
  auto compiler = Nvrtc::get();
  ASSERT_TRUE(compiler.ok()) << compiler.status().message();
  auto built = (*compiler)->compile("extern \"C\" __global__ void f() {}", "f", 90);
  ASSERT_FALSE(built.ok());
  EXPECT_NE(built.status().message().find("builtin"), std::string::npos) << built.status().message();
}

TEST(Nvrtc, PtxasWords) {
  CudaBinary b;
  read_ptxas(
      "ptxas info    : Compiling entry function 'f' for 'sm_90'\nptxas info    : Function properties for f\n "
      "   8 bytes stack frame, 12 bytes "
      "spill stores, 20 bytes spill loads\nptxas info    : Used 255 registers, used 1 barriers, 512 bytes "
      "smem, 400 bytes cmem[0]\n",
      b);
  EXPECT_EQ(b.registers, 255);
  EXPECT_EQ(b.spill_bytes, 32);
  EXPECT_EQ(b.shared_bytes, 512);
}

}  // namespace
}  // namespace tenon::jit
