// Compiled kernels across processes: they are found again, refused if damaged, and never wrong. A compiler that has released its code
// stands for another process, or a child process runs.
#include "src/base/store/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "jit/llvm/orc.h"
#include "jit/objects/elf_loader.h"
#include "jit/objects/object_slice.h"
#include "src/base/log.h"
#include "tests/support/store_help.h"

namespace tenon::jit {
namespace {

using testing::HasSubstr;

std::string adder_text(const std::string& name, int64_t constant, const std::string& x = "x") {
  return "kernel @" + name + "(N; in %" + x + ": i64, out %y: i64) {\n  par simd %i in N {\n    %v = load %" +
         x + "[%i]\n    %c = const.i64 " + std::to_string(constant) +
         "\n    %r = add %v, %c\n    store %y[%i], %r\n  }\n}\n";
}
Kernel adder(int64_t constant) { return *parse_kernel(adder_text("adder", constant)); }

// A kernel with constants in memory, a call of the C library, and polynomials.
Kernel mixed(double factor) {
  return *parse_kernel(
      "kernel @mixed(N; in %x: f64, out %y: f64) {\n  par simd %i in N {\n    %v = load %x[%i]\n    %c = "
      "const.f64 " +
      std::to_string(factor) + "\n    %m = fmod %v, %c\n    %e = tanh %m\n    store %y[%i], %e\n  }\n}\n");
}

template <class T>
std::vector<T> run(const jit::Code& code, std::vector<T> x) {
  std::vector<T> y(x.size());
  int64_t size = static_cast<int64_t>(x.size());
  void* buffers[] = {x.data(), y.data()};
  code.function(buffers, &size, nullptr, 0, (size + lanes(host_isa()) - 1) / lanes(host_isa()));
  return y;
}

const std::vector<int64_t> kX = {5, -7, 0, 12345678901, 1, 2, 3, 4, 5, 6, 7};

int64_t compiled() { return Compiler::get().stats().compiled; }
int64_t from_disk() { return Compiler::get().stats().from_disk; }

bool adds(int64_t constant) {
  const Kernel kernel = adder(constant);
  auto codes = Compiler::get().compile({&kernel}, host_isa());
  if (!codes.ok()) return false;
  const std::vector<int64_t> y = run(*(*codes)[0], kX);
  for (size_t i = 0; i < kX.size(); ++i)
    if (y[i] != kX[i] + constant) return false;
  return true;
}

TEST(KernelsOnDisk, TheSecondTimeNothingIsCompiled) {
  ScratchDirectory scratch;
  Disk disk(at(scratch / "c"));
  const int64_t before = compiled(), found = from_disk();
  std::vector<Kernel> kernels;
  for (int i = 0; i < 20; ++i) kernels.push_back(i % 2 ? adder(i) : mixed(1 + i));
  std::vector<const Kernel*> pointers;
  for (const Kernel& k : kernels) pointers.push_back(&k);
  std::vector<double> x;
  for (int i = -50; i < 50; ++i) x.push_back(0.37 * i);
  std::vector<std::vector<double>> first, second;
  std::vector<std::vector<int64_t>> whole, again;
  for (int round = 0; round < 2; ++round) {
    auto codes = Compiler::get().compile(pointers, host_isa());
    ASSERT_TRUE(codes.ok()) << codes.status().message();
    for (int i = 0; i < 20; ++i)
      if (i % 2)
        (round ? again : whole).push_back(run((*(*codes)[i]), kX));
      else
        (round ? second : first).push_back(run((*(*codes)[i]), x));
  }
  EXPECT_EQ(compiled() - before, 20);
  EXPECT_EQ(from_disk() - found, 20);
  EXPECT_EQ(first, second);
  EXPECT_EQ(whole, again);
  EXPECT_EQ(whole[2][0], 5 + 5);
  EXPECT_EQ(disk.store.stats().stores, 20);
}

TEST(KernelsOnDisk, NamesDoNotMatterAndInstructionSetsDo) {
  ScratchDirectory scratch;
  Disk disk(at(scratch / "c"));
  const Kernel a = *parse_kernel(adder_text("a", 77)), b = *parse_kernel(adder_text("b", 77, "input"));
  ASSERT_TRUE(Compiler::get().compile({&a}, host_isa()).ok());
  const int64_t before = compiled();
  ASSERT_TRUE(Compiler::get().compile({&b}, host_isa()).ok());
  EXPECT_EQ(compiled(), before);
  ASSERT_TRUE(Compiler::get().compile({&b}, Isa::sse2).ok());
  EXPECT_EQ(compiled(), before + (host_isa() != Isa::sse2));
  EXPECT_NE(disk_key({"LLVM 1", "text", "kernel"}), disk_key({"LLVM 2", "text", "kernel"}));
  EXPECT_NE(disk_key({"LLVM 1", "text", "kernel"}), disk_key({"LLVM 1", "text ", "kernel"}));
  EXPECT_NE(disk_key({"LLVM 1", "text", "kernel"}), disk_key({"LLVM 1", "text", "another"}));
  EXPECT_NE(disk_key({"LLVM 1", "text", "kernel"}), disk_key({"LLVM 1", "textk", "ernel"}));
}

TEST(KernelsOnDisk, DamagedFilesAreCompiledAgain) {
  ScratchDirectory scratch;
  Disk disk(at(scratch / "c"));
  ASSERT_TRUE(adds(1));
  Result<std::vector<Store::Item>> items = disk.store.list();
  ASSERT_EQ(items->size(), 1u);
  const std::string path = scratch / "c/" + items->front().file, good = file_bytes(path);
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    std::string bytes = good;
    if (round % 3)
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    else
      bytes.resize(random() % bytes.size());
    write_bytes(path, bytes);
    const int64_t before = compiled();
    ASSERT_TRUE(adds(1));
    ASSERT_EQ(compiled(), before + 1);
    ASSERT_EQ(file_bytes(path).size(), good.size()) << "and stored again";
  }
  EXPECT_EQ(disk.store.stats().refused, 60);
}

// An entry with right checksums and a wrong object.
TEST(KernelsOnDisk, TheLinkerHasTheLastWord) {
  ScratchDirectory scratch;
  Disk disk(at(scratch / "c"));
  ASSERT_TRUE(adds(2));
  Result<std::vector<Store::Item>> items = disk.store.list();
  Result<StoreEntry> entry = disk.store.read(items->front().file);
  ASSERT_TRUE(entry.ok());
  for (const std::string& object :
       {std::string(), entry->object.substr(0, entry->object.size() - 64),
        *compile_object("define void @f() {\n  ret void\n}\ndefine void @g() {\n  ret void\n}\n"),
        *compile_object("define void @f() {\n  call void @none()\n  ret void\n}\ndeclare void @none()\n")}) {
    StoreEntry changed = *entry;
    changed.object = object;
    ASSERT_TRUE(disk.store.save(changed).ok());
    const int64_t before = compiled(), refused = disk.store.stats().refused;
    EXPECT_TRUE(adds(2));
    EXPECT_EQ(compiled(), before + 1);
    EXPECT_EQ(disk.store.stats().refused, refused + 1);
  }
}

TEST(KernelsOnDisk, WithoutADirectoryAllWorks) {
  Disk disk(at("/proc/none/such"));
  EXPECT_TRUE(adds(3));
  EXPECT_EQ(disk.store.stats().misses, 1);
  EXPECT_GT(disk.store.stats().failed_stores, 0);
}

TEST(KernelsOnDisk, EightProcessesOnOneColdDirectory) {
  ScratchDirectory scratch;
  std::vector<pid_t> children;
  for (int c = 0; c < 8; ++c) {
    const pid_t child = fork();
    if (child == 0) {
      Disk disk(at(scratch / "c"));
      int wrong = 0;
      for (int64_t i = 0; i < 12; ++i) wrong += !adds(400 + i);
      for (int64_t i = 0; i < 12; ++i) wrong += !adds(400 + i);
      wrong += disk.store.stats().refused != 0;
      wrong += disk.store.stats().hits < 12;
      _exit(wrong);
    }
    children.push_back(child);
  }
  expect_all_well(children);
  Disk disk(at(scratch / "c"));
  const int64_t before = compiled();
  for (int64_t i = 0; i < 12; ++i) EXPECT_TRUE(adds(400 + i));
  EXPECT_EQ(compiled(), before);
  EXPECT_EQ(files_in(scratch / "c", "tmp"), 0);
}

TEST(KernelsOnDisk, ManyThreads) {
  ScratchDirectory scratch;
  Disk disk(at(scratch / "c", 100000));  // so small that it is pruned all the time
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 12; ++i) wrong += !adds(500 + (i * (t + 1)) % 17);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

struct Lines {
  std::mutex mutex;
  std::string text, compiled;
};

// The number of columns in a row of comma-separated values; commas between quotes are text.
int columns(const std::string& line) {
  int count = 1;
  bool quoted = false;
  for (char c : line) {
    quoted = quoted != (c == '"');
    count += c == ',' && !quoted;
  }
  return count;
}

TEST(KernelsOnDisk, EveryEventIsALineThatSaysWhy) {
  ScratchDirectory scratch;
  Lines lines;
  set_logger(
      [](void* user, const char* topic, const char* message) {
        auto& out = *static_cast<Lines*>(user);
        std::lock_guard lock(out.mutex);
        if (std::string(topic) == "cache") out.text += std::string(message) + "\n";
        if (std::string(topic) == "compile") out.compiled += std::string(message) + "\n";
      },
      &lines);
  {
    Disk disk(at(scratch / "c"));
    EXPECT_TRUE(adds(600));
    EXPECT_THAT(lines.text, HasSubstr("miss,adder," + std::string(isa_name(host_isa()))));
    EXPECT_THAT(lines.text, HasSubstr("there is no directory to read"));
    EXPECT_THAT(lines.text, HasSubstr("store,adder,"));
    EXPECT_TRUE(adds(600));
    EXPECT_THAT(lines.text, HasSubstr("hit,adder,"));
    EXPECT_TRUE(adds(601));
    EXPECT_THAT(lines.text, HasSubstr("no process has stored this for this machine and version"));
    for (const auto& file : std::filesystem::directory_iterator(scratch / "c")) write_bytes(file.path(), "");
    EXPECT_TRUE(adds(600));
    EXPECT_THAT(lines.text, HasSubstr("the file is empty; removed"));
  }
  set_logger(nullptr, nullptr);
  // There is one header, and every row has as many columns. There is one row for every event and for every compiled kernel.
  std::istringstream stream(lines.text), compiled(lines.compiled);
  std::map<std::string, int> events;
  for (std::string line; std::getline(stream, line);) {
    EXPECT_EQ(columns(line), 6) << line;
    ++events[line.substr(0, line.find(','))];
  }
  EXPECT_EQ(events, (std::map<std::string, int>{
                        {"event", 1}, {"miss", 2}, {"store", 3}, {"hit", 1}, {"refused", 1}}));
  std::vector<std::string> rows;
  for (std::string line; std::getline(compiled, line);) {
    EXPECT_EQ(columns(line), 5) << line;
    rows.push_back(line);
  }
  ASSERT_EQ(rows.size(), 4u) << lines.compiled;
  EXPECT_EQ(rows[0], "kernel,isa,bytes,ms,why");
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_TRUE(rows[i].starts_with("adder," + std::string(isa_name(host_isa())) + ",")) << rows[i];
    EXPECT_THAT(rows[i], HasSubstr("neither this process nor the disk has its code"));
  }
}

TEST(Slice, EveryFunctionAlone) {
  auto object = compile_object(
      "define double @f(double %x) {\n  %y = call double @fmod(double %x, double 3.25)\n  ret double %y\n}\n"
      "define double @g(double %x) {\n  %y = fmul double %x, 2.5\n  ret double %y\n}\n"
      "declare double @fmod(double, double)\n");
  ASSERT_TRUE(object.ok()) << object.status().message();
  using Function = double (*)(double);
  for (auto [name, want] : {std::pair("f", 0.25), std::pair("g", 25.0)}) {
    Result<std::string> alone = slice(*object, name);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    auto linked = link(*alone);
    ASSERT_TRUE(linked.ok()) << linked.status().message();
    EXPECT_EQ(linked->functions.size(), 1u);
    EXPECT_EQ(reinterpret_cast<Function>(linked->functions.at(name).address)(10.0), want);
    EXPECT_EQ(*slice(*alone, name), *alone) << "nothing is left to leave out";
    EXPECT_EQ(alone->find("fmod") != alone->npos, std::string(name) == "f");
  }
  EXPECT_FALSE(slice(*object, "h").ok());
  for (size_t n = 0; n < object->size(); ++n) (void)slice(object->substr(0, n), "f");
}

}  // namespace
}  // namespace tenon::jit
