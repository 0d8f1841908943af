// Forks: a child of a process that has used OpenMP and oneDNN runs the same program, new sizes and new programs. Also the end of a
// process while threads still run programs.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <omp.h>

#include <chrono>
#include <thread>

#include "src/base/log.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

constexpr char kText[] = R"(graph @f(%x: f32[N,256], %w: f32[256,256]) {
  %m = matmul(%x, %w)
  %g = gelu(%m)
  %y = softmax(%g){axis=-1}
  return %y
})";

std::shared_ptr<Program> make() {
  auto graph = parse_graph(kText);
  auto program = Program::make(*graph, {}, {});
  return program.ok() ? *program : nullptr;
}

// Runs the program on n rows and checks that every row sums to 1.
bool runs(Program& program, int64_t n) {
  std::vector<float> x(static_cast<size_t>(n) * 256, 0.5f), w(256 * 256, 0.01f), y(x.size());
  const int64_t rows[] = {n, 256}, square[] = {256, 256};
  const Tensor in[] = {{x.data(), DType::f32, rows, {}}, {w.data(), DType::f32, square, {}}};
  const Tensor out[] = {{y.data(), DType::f32, rows, {}}};
  if (!program.run(in, out).ok()) return false;
  for (float v : y)
    if (std::abs(v * 256 - 1) > 1e-3f) return false;
  return true;
}

constexpr int kForks = 60;

// Runs `body` in a child. Returns the exit status, or -1 if the child has not ended after 20 seconds.
template <class Body>
int child(Body&& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  for (int i = 0; i < 2000; ++i) {
    if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  return -1;
}

class Fork : public testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(4); }  // also on a single core
};

TEST_F(Fork, ChildRuns) {
  auto program = make();
  ASSERT_TRUE(program && runs(*program, 2048));
  const int status = child([&] {
    if (!runs(*program, 2048)) return 1;  // has a plan
    if (!runs(*program, 1999)) return 2;  // needs a new plan
    auto other = make();
    if (!other || !runs(*other, 2048)) return 3;
    int in_thread = 0;
    std::thread([&] { in_thread = runs(*program, 2048); }).join();
    if (!in_thread) return 4;
    // A fork of the fork.
    return child([&] { return runs(*program, 2048) ? 0 : 5; });
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(runs(*program, 2048)) << "the parent goes on";
}

TEST_F(Fork, WhileOthersRun) {
  auto program = make();
  ASSERT_TRUE(program && runs(*program, 300));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      while (!stop) runs(*program, 300 + t);
    });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(child([&] { return runs(*program, 300) ? 0 : 1; }), 0);
  stop = true;
  for (std::thread& t : threads) t.join();
}

// Forks while threads hold the locks of programs, plans, compiles, primitives of libraries and the log. The child needs all these
// locks.
TEST_F(Fork, WhileOthersMakeProgramsAndPlans) {
  static std::atomic<int64_t> lines{0};
  set_logger([](void*, const char*, const char*) { ++lines; }, nullptr);
  ProgramOptions few;
  few.limits.plans = 2;
  auto graph = parse_graph(kText);
  auto shared = Program::make(*graph, few, {});
  ASSERT_TRUE(shared.ok() && runs(**shared, 10));
  std::atomic<bool> stop{false};
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t n = 1; !stop; ++n) {
        if (t < 2) {
          runs(**shared, 1 + (2 * n + t) % 40);
        } else {
          // Each program has its own constant, so its kernel is not compiled yet.
          char text[200];
          std::snprintf(text, sizeof text,
                        "graph @own(%%x: f32[N]) {\n %%c = constant{dtype=f32, shape=[], data=0x%08x}\n"
                        " %%y = add(%%x, %%c)\n return %%y\n}",
                        static_cast<unsigned>(0x40000000 + 2 * n + t));
          auto own = parse_graph(text);
          made += own.ok() && Program::make(*own, {}, {}).ok();
        }
      }
    });
  for (int i = 0; i < kForks; ++i) {
    const int status = child([&] {
      if (!runs(**shared, 100 + i)) return 1;
      auto other = make();
      if (!other || !runs(*other, 50)) return 2;
      (*shared)->set_limits({1, 1});
      return (*shared)->stats().plans.plans == 1 ? 0 : 3;
    });
    EXPECT_EQ(status, 0) << "fork " << i;
    if (status != 0) break;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  set_logger(nullptr, nullptr);
  EXPECT_GT(made, 0);
  EXPECT_GT(lines, 0);
}

// Threads run programs when main() ends: their code must not be unmapped before they stop.
TEST_F(Fork, ExitWhileOthersRun) {
  for (int i = 0; i < 40;
       ++i) {  // some processes end during the first runs, which make code and static objects
    const pid_t pid = fork();
    if (pid == 0) {
      auto program = make();
      for (int t = 0; t < 2; ++t)
        std::thread([program, t] {
          for (int64_t n = 1;; ++n) runs(*program, 200 + (n + t) % 50);
        }).detach();
      std::this_thread::sleep_for(std::chrono::milliseconds(4 * i));
      std::exit(7);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << "status " << status;
  }
}

// A static object of the host that joins its thread. It is destroyed after the gate of oneDNN has closed, while the thread still
// runs.
struct Joiner {
  std::atomic<bool> stop{false};
  std::thread thread;
  ~Joiner() {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the thread reaches the gate again
    stop = true;
    if (thread.joinable()) thread.join();
  }
};

TEST_F(Fork, ExitWhileAStaticObjectJoins) {
  for (int i = 0; i < 10; ++i) {
    const int status = child([&] {
      static Joiner joiner;  // made before the first program, so destroyed after all our handlers have run
      auto program = make();
      joiner.thread = std::thread([program = std::move(program)] {
        for (int64_t n = 1; !joiner.stop; ++n) runs(*program, 200 + n % 50);
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20 * i));
      std::exit(7);
      return 0;
    });
    EXPECT_EQ(status, 7) << "after " << 20 * i << " ms";
    if (status != 7) break;
  }
}

}  // namespace
}  // namespace tenon
