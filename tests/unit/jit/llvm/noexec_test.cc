// A /tmp that is mounted noexec, as on hardened systems. Code lies in anonymous memory, never in files, so compiled kernels, kernels
// from a cache on such a file system, and the library's own code run all the same. This is a separate executable that compiles
// nothing before it forks, since the memory for code must be made in the child.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "src/base/store/disk_cache.h"
#include "tests/support/run_help.h"
#include "tests/support/store_help.h"

namespace tenon {
namespace {

// Mounts an empty file system at /tmp that only this process sees. The process must have one thread. False: errno has the reason.
bool own_tmp() {
  const uid_t user = getuid(), group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user << " " << user << " 1";
  std::ofstream("/proc/self/gid_map") << group << " " << group << " 1";
  return !mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) &&
         !mount("none", "/tmp", "tmpfs", 0, nullptr);
}
bool forbid_execution_in_tmp() {
  return !mount("none", "/tmp", nullptr, MS_REMOUNT | MS_BIND | MS_NOEXEC, nullptr);
}

// 1: a file in /tmp can be mapped as executable; 0: this is forbidden; -1: there is no such file.
int executable() {
  write_bytes("/tmp/code", std::string(4096, '\xc3'));
  const int file = open("/tmp/code", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  void* at = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (at == MAP_FAILED) return error == EPERM ? 0 : -1;
  munmap(at, 4096);
  return 1;
}

const char kLayer[] =
    "graph @layer(%x: f32[N,64], %w: f32[64,48], %b: f32[48]) {\n  %h = matmul(%x, %w)\n  %s = add(%h, %b)\n"
    "  %t = softmax(%s){axis=-1}\n  %y = cumsum(%t){axis=0}\n  return %y\n}\n";

// Makes the program and runs it. Returns "" if the result is right.
std::string run_layer(const Graph& graph, std::vector<HostTensor>& inputs, const HostTensor& expected) {
  auto program = Program::make(graph, {}, {});
  if (!program.ok()) return program.status().message();
  HostTensor y(DType::f32, expected.shape);
  std::vector<Tensor> in, out{tensor_of(y)};
  for (HostTensor& t : inputs) in.push_back(tensor_of(t));
  if (const Status status = (*program)->run(in, out); !status.ok()) return status.message();
  for (int64_t i = 0; i < y.count(); ++i)
    if (!(std::abs(y.number(i) - expected.number(i)) < 1e-4))
      return "element " + std::to_string(i) + " is wrong";
  return {};
}

TEST(Noexec, ATmpWithoutExecutionDisturbsNothing) {
  auto graph = parse_graph(kLayer);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::vector<HostTensor> inputs = {random_tensor(DType::f32, {9, 64}, 1),
                                    random_tensor(DType::f32, {64, 48}, 2),
                                    random_tensor(DType::f32, {48}, 3)};
  const auto expected = evaluate(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();

  constexpr int kNotAllowed = 100;  // + errno
  const int status = in_child([&] {
    if (!own_tmp()) return kNotAllowed + errno;
    if (executable() != 1) return 1;
    if (!forbid_execution_in_tmp()) return kNotAllowed + errno;
    if (executable() != 0) return 2;
    setenv("TMPDIR", "/tmp", 1);
    Store store(at("/tmp/kernels"));
    DiskCache cache(store);
    DiskCache::replace(&cache);
    auto compiled = [] { return jit::Compiler::get().stats().compiled; };
    for (int round = 0; round < 2; ++round) {  // compiled first, then from the cache
      const int64_t before = compiled();
      if (const std::string why = run_layer(*graph, inputs, expected->front()); !why.empty()) {
        std::fprintf(stderr, "%s\n", why.c_str());
        return 3 + round;
      }
      if (round ? compiled() != before || store.stats().hits == 0 : store.stats().stores == 0)
        return 5 + round;
    }
    return 0;
  });
  if (status >= kNotAllowed && status < 1000)
    GTEST_SKIP() << "a /tmp of the test's own cannot be mounted here: "
                 << std::strerror(status - kNotAllowed);
  EXPECT_EQ(status, 0) << "the number of the step that failed";
}

}  // namespace
}  // namespace tenon
