// The compiler without the emitter: code pool, linker, sharing, threads, failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "jit/llvm/orc.h"
#include "jit/objects/code_pool.h"
#include "jit/objects/elf_loader.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace tenon::jit {
namespace {

using testing::HasSubstr;

Kernel adder(const std::string& name, int64_t constant) {
  Result<Kernel> kernel = parse_kernel(
      "kernel @" + name +
      "(N; in %x: i64, out %y: i64) {\n  par simd %i in N {\n    %v = load %x[%i]\n    %c = const.i64 " +
      std::to_string(constant) + "\n    %r = add %v, %c\n    store %y[%i], %r\n  }\n}\n");
  EXPECT_TRUE(kernel.ok()) << kernel.status().message();
  return *kernel;
}

int64_t run(const jit::Code& code, int64_t x) {
  int64_t y = 0, size = 1;
  void* buffers[] = {&x, &y};
  code.function(buffers, &size, nullptr, 0, 1);
  return y;
}

// Memory that is allocated while it lives does not count as a leak.
struct LeaksAllowed {
#ifdef __SANITIZE_ADDRESS__
  __lsan::ScopedDisabler disabler;
#else
  LeaksAllowed() {}
#endif
};

struct Maps {
  int count = 0, writable_and_executable = 0;
};
Maps maps() {
  Maps m;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line); ++m.count)
    if (line.find("rwx") != line.npos) ++m.writable_and_executable;
  return m;
}

TEST(Compiler, SharesEqualKernels) {
  Compiler& compiler = Compiler::get();
  Kernel a = adder("a", 1001), b = adder("b", 1001), c = adder("a", 1002);
  auto before = compiler.stats();
  auto codes = compiler.compile({&a, &b, &c, &a}, host_isa());
  ASSERT_TRUE(codes.ok()) << codes.status().message();
  EXPECT_EQ((*codes)[0], (*codes)[1]);
  EXPECT_EQ((*codes)[0], (*codes)[3]);
  EXPECT_NE((*codes)[0], (*codes)[2]);
  EXPECT_EQ(run(*(*codes)[1], 5), 1006);
  EXPECT_EQ(run(*(*codes)[2], 5), 1007);
  EXPECT_EQ(compiler.stats().compiled - before.compiled, 2);
  EXPECT_EQ(compiler.stats().shared - before.shared, 2);
  auto again = compiler.compile({&b}, host_isa());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)[0], (*codes)[0]);
  auto lower = compiler.compile({&b}, Isa::sse2);
  ASSERT_TRUE(lower.ok());
  EXPECT_EQ((*lower)[0] == (*codes)[0], host_isa() == Isa::sse2);
}

TEST(Compiler, FreesCodeNobodyHolds) {
  Compiler& compiler = Compiler::get();
  int64_t before = compiler.stats().code_bytes;
  for (int round = 0; round < 3; ++round) {
    Kernel k = adder("gone", 2001);
    int64_t compiled = compiler.stats().compiled;
    auto codes = compiler.compile({&k}, host_isa());
    ASSERT_TRUE(codes.ok());
    EXPECT_EQ(compiler.stats().compiled, compiled + 1) << "code outlived its users";
    EXPECT_GT(compiler.stats().code_bytes, before);
  }
  EXPECT_EQ(compiler.stats().code_bytes, before);
}

TEST(Compiler, FewMappingsAndNoneWritableAndExecutable) {
  Compiler& compiler = Compiler::get();
  std::vector<std::shared_ptr<const jit::Code>> kept;
  Kernel first = adder("first", -1);
  kept.push_back((*compiler.compile({&first}, host_isa()))[0]);
  [[maybe_unused]] const Maps before = maps();
  for (int batch = 0; batch < 50; ++batch) {
    std::vector<Kernel> kernels;
    for (int i = 0; i < 10; ++i) kernels.push_back(adder("many", 3000 + batch * 10 + i));
    std::vector<const Kernel*> pointers;
    for (const Kernel& k : kernels) pointers.push_back(&k);
    auto codes = compiler.compile(pointers, host_isa());
    ASSERT_TRUE(codes.ok()) << codes.status().message();
    for (int i = 0; i < 10; ++i) ASSERT_EQ(run(*(*codes)[i], 7), 3007 + batch * 10 + i);
    kept.insert(kept.end(), codes->begin(), codes->end());
    EXPECT_EQ(maps().writable_and_executable, 0);
  }
#ifndef __SANITIZE_THREAD__  // TSan maps its shadow memory piece by piece
  EXPECT_LT(maps().count, before.count + 24) << "threads' stacks and heaps account for some";
#endif
}

TEST(Compiler, ManyThreadsCompileTheSameAndOthers) {
  Compiler& compiler = Compiler::get();
  auto before = compiler.stats();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        Kernel common = adder("common", 5000 + i), own = adder("own", 6000 + 10 * t + i);
        auto codes = compiler.compile({&common, &own}, host_isa());
        if (!codes.ok() || run(*(*codes)[0], 1) != 5001 + i || run(*(*codes)[1], 1) != 6001 + 10 * t + i)
          ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(compiler.stats().compiled + compiler.stats().shared - before.compiled - before.shared, 6 * 8 * 2);
  EXPECT_EQ(CodePool::get().bytes_in_use(), compiler.stats().code_bytes);
}

TEST(Compiler, FailuresAreStatuses) {
  Kernel broken = adder("broken", 1);
  broken.body[0].body[0].address[0].size = 7;
  auto codes = Compiler::get().compile({&broken}, host_isa());
  EXPECT_EQ(codes.status().code(), tenon::Code::invalid);

  auto text = compile_object("define void @f() {\n  %x = frobnicate i32 1\n  ret void\n}\n");
  EXPECT_EQ(text.status().code(), tenon::Code::internal);
  EXPECT_THAT(text.status().message(), HasSubstr("frobnicate"));

  auto object = compile_object(
      "declare void @elsewhere()\ndefine void @f() {\n  call void @elsewhere()\n  ret void\n}\n");
  ASSERT_TRUE(object.ok()) << object.status().message();
  EXPECT_THAT(link(*object).status().message(), HasSubstr("elsewhere"));

  auto writable =
      compile_object("@g = global i32 1\ndefine i32 @f() {\n  %x = load i32, ptr @g\n  ret i32 %x\n}\n");
  ASSERT_TRUE(writable.ok()) << writable.status().message();
  EXPECT_EQ(link(*writable).status().code(), tenon::Code::internal);

  // A fatal error of LLVM, since x86 has no such intrinsic. The process continues; the memory that LLVM held at that moment is lost.
  {
    const LeaksAllowed here;
    auto fatal = compile_object(
        "declare i32 @llvm.amdgcn.workitem.id.x()\ndefine i32 @f() {\n  %x = call i32 "
        "@llvm.amdgcn.workitem.id.x()\n  ret i32 %x\n}\n");
    EXPECT_EQ(fatal.status().code(), tenon::Code::internal);
  }
  Kernel good = adder("good", 7001);
  EXPECT_TRUE(Compiler::get().compile({&good}, host_isa()).ok());
}

TEST(Link, DamagedObjectsAreRefused) {
  auto object = compile_object(
      "define double @f(double %x) {\n  %y = call double @fmod(double %x, double 3.25)\n  ret double "
      "%y\n}\ndeclare double @fmod(double, double)\n");
  ASSERT_TRUE(object.ok());
  auto good = link(*object);
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(good->functions.at("f").address)(10.0), 0.25);
  for (size_t n = 0; n < object->size(); ++n) EXPECT_FALSE(link(object->substr(0, n)).ok()) << n;
  // If any byte of an object is changed, the linker returns code or a status and never crashes.
  for (size_t at = 0; at < object->size(); ++at)
    for (int bit : {0, 7}) {
      std::string damaged = *object;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      (void)link(damaged);
    }
}

}  // namespace
}  // namespace tenon::jit
