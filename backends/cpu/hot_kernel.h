// HotKernel: one launch of a kernel that may be compiled again with its sizes as constants. Calls are counted and timed;
// when they have taken long enough, a thread of low priority compiles the second version, the two take turns in calls of
// the host, and the faster one stays. Both give the same bits (jit/transform/specialize.h). Any thread.
// Tested by tests/unit/jit/specialize_test.cc.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "src/runtime/backend.h"

namespace tenon {

// What is hot, and what the background may spend. Of the process; a test sets others.
struct SpecializeLimits {
  int64_t calls = 64;                          // of one launch, at least
  std::chrono::nanoseconds spent{20'000'000};  // in these calls together, at least
  int64_t turns = 64;                          // calls that compare the versions, half of them each
  int64_t kernels = 256;                       // compiled with constants and alive, at most
  int64_t bytes = int64_t{16} << 20;           // of their code
  int rest =
      19;  // times as long as a compile took on the CPU the thread then sleeps: a twentieth of one core
};

class HotKernel : public std::enable_shared_from_this<HotKernel> {
 public:
  using Clock = std::chrono::steady_clock;
  struct Turn {
    jit::KernelFn function;
    int version = -1;  // 0: sizes as arguments, 1: as constants; -1: not timed
    Clock::time_point start = {};
  };

  // kernel: alive as long as steps run. With SpecializeMode::wait the second version is compiled here and now.
  static std::shared_ptr<HotKernel> make(const jit::Kernel& kernel, std::vector<int64_t> sizes,
                                         std::shared_ptr<const jit::Code> code, jit::Isa isa,
                                         std::shared_ptr<Specialization> counts);
  ~HotKernel();

  // Around each call.
  Turn begin() {
    const State state = state_.load(std::memory_order_acquire);
    if (state == State::decided || state == State::asked) return {chosen_.load(std::memory_order_relaxed)};
    return begin_timed(state);
  }
  void end(const Turn& turn) {
    if (turn.version >= 0) end_timed(turn);
  }

  void compile();  // the second version; the background's part
  void refuse(const std::string& why);

  static void set_limits(const SpecializeLimits& limits);  // of what is counted from now on

 private:
  // counting calls; asked for; versions take turns; one is chosen.
  enum class State : uint8_t { counting, asked, turns, decided };

  HotKernel(const jit::Kernel& kernel, std::vector<int64_t> sizes, std::shared_ptr<const jit::Code> code,
            jit::Isa isa, std::shared_ptr<Specialization> counts);
  Turn begin_timed(State state);
  void end_timed(const Turn& turn);
  void decide();
  void tell(const char* event, const std::string& why) const;

  const jit::Kernel& kernel_;  // read while a step runs only
  const std::vector<int64_t> sizes_;
  const std::string name_;
  const jit::Isa isa_;
  const std::shared_ptr<Specialization> counts_;
  const std::shared_ptr<const jit::Code> general_;
  jit::Kernel wanted_;                        // from asked on, until it is compiled
  std::shared_ptr<const jit::Code> special_;  // written before turns begin
  std::atomic<State> state_{State::counting};
  std::atomic<jit::KernelFn> chosen_;
  std::atomic<int64_t> calls_{0}, spent_{0};  // while counting; later turns begun and ended
  std::array<std::atomic<int64_t>, 2> best_;  // ns of the fastest call by version
};

}  // namespace tenon
