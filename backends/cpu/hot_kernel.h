// HotKernel: one launch of a kernel that may be compiled again with its sizes as constants. It counts and times the calls. When
// they have taken long enough, a thread of low priority compiles the second version. Then the calls of the host alternate
// between the two versions, and the faster one stays. Both give the same bits (jit/transform/specialize.h). Any thread.
// Tested by tests/unit/jit/transform/specialize_test.cc.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "src/backend/backend.h"

namespace tenon {

// When a launch is hot, and what the background thread may spend. One set per process; tests set others.
struct SpecializeLimits {
  int64_t calls = 64;                          // a launch is hot after at least this many calls
  std::chrono::nanoseconds spent{20'000'000};  // that took at least this long together
  int64_t turns = 64;                          // calls that compare the versions, half of them with each
  int64_t kernels = 256;                       // most kernels compiled with constants that are alive at once
  int64_t bytes = int64_t{16} << 20;           // most bytes of their code
  int rest =
      19;  // after a compile the thread sleeps this many times its CPU time, so it uses a twentieth of a core
};

class HotKernel : public std::enable_shared_from_this<HotKernel> {
 public:
  using Clock = std::chrono::steady_clock;
  struct Turn {
    jit::KernelFn function;
    int version = -1;  // 0: sizes as arguments, 1: as constants; -1: not timed
    Clock::time_point start = {};
  };

  // kernel: must live as long as steps run. With SpecializeMode::wait, make() compiles the second version before it returns.
  static std::shared_ptr<HotKernel> make(const jit::Kernel& kernel, std::vector<int64_t> sizes,
                                         std::shared_ptr<const jit::Code> code, jit::Isa isa,
                                         std::shared_ptr<Specialization> counts);
  ~HotKernel();

  // The caller puts these two around each call.
  Turn begin() {
    const State state = state_.load(std::memory_order_acquire);
    if (state == State::decided || state == State::asked) return {chosen_.load(std::memory_order_relaxed)};
    return begin_timed(state);
  }
  void end(const Turn& turn) {
    if (turn.version >= 0) end_timed(turn);
  }

  void compile();  // compiles the second version, on the background thread
  void refuse(const std::string& why);

  static void set_limits(const SpecializeLimits& limits);  // for everything counted from now on

 private:
  // Counting calls; waiting for the second version; alternating between the versions; one version is chosen.
  enum class State : uint8_t { counting, asked, turns, decided };

  HotKernel(const jit::Kernel& kernel, std::vector<int64_t> sizes, std::shared_ptr<const jit::Code> code,
            jit::Isa isa, std::shared_ptr<Specialization> counts);
  Turn begin_timed(State state);
  void end_timed(const Turn& turn);
  void decide();
  void tell(const char* event, const std::string& why) const;

  const jit::Kernel& kernel_;  // read only while a step runs
  const std::vector<int64_t> sizes_;
  const std::string name_;
  const jit::Isa isa_;
  const std::shared_ptr<Specialization> counts_;
  const std::shared_ptr<const jit::Code> general_;
  jit::Kernel wanted_;  // the specialized kernel, from State::asked until it is compiled
  std::shared_ptr<const jit::Code> special_;  // written before State::turns
  std::atomic<State> state_{State::counting};
  std::atomic<jit::KernelFn> chosen_;
  std::atomic<int64_t> calls_{0},
      spent_{0};  // calls and ns in State::counting; turns begun and ended in State::turns
  std::array<std::atomic<int64_t>, 2> best_;  // ns of the fastest call of each version
};

}  // namespace tenon
