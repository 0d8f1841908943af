// See hot_kernel.h. The background is one thread with a bounded queue. It starts with the first hot kernel; a forked child starts
// its own. The exit of the process waits for it.
#include "backends/cpu/hot_kernel.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>

#include "jit/pipeline.h"
#include "src/base/log.h"

namespace tenon {
namespace {

constexpr int64_t kNever = INT64_MAX;
// The second version is kept if it takes at most this share of the first one's time.
constexpr double kWorthwhile = 0.97;

const SpecializeLimits kLimits;
std::atomic<const SpecializeLimits*> limits{&kLimits};

// Kernels compiled with constants that are alive.
std::atomic<int64_t> live_kernels{0}, live_bytes{0};

std::chrono::nanoseconds thread_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

class Background {
 public:
  // Never null and never destroyed: a forked child abandons the object of its parent.
  static Background& get() {
    static std::once_flag once;
    std::call_once(once, [] {
      current().store(new Background);
      pthread_atfork(nullptr, nullptr, [] { current().store(new Background); });
      std::atexit([] { current().load()->stop(); });
    });
    return *current().load();
  }

  bool ask(std::weak_ptr<HotKernel> kernel) {
    std::lock_guard lock(mutex_);
    if (stopped_ || queue_.size() >= kWaiting) return false;
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([this] { work(); });
      } catch (const std::system_error&) {
        return false;
      }
    }
    queue_.push_back(std::move(kernel));
    changed_.notify_one();
    return true;
  }

 private:
  static constexpr size_t kWaiting = 256;

  static std::atomic<Background*>& current() {
    static std::atomic<Background*> background;
    return background;
  }

  void work() {
    // On Linux each thread has its own nice value. If the call is not permitted, the compile competes with the host's threads;
    // the rests between compiles bound that.
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopped_ || !queue_.empty(); });
      if (stopped_) return;
      const std::weak_ptr<HotKernel> next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      const auto before = thread_time();
      if (const std::shared_ptr<HotKernel> kernel = next.lock()) kernel->compile();
      const auto rest = (thread_time() - before) * limits.load()->rest;
      lock.lock();
      changed_.wait_for(lock, rest, [&] { return stopped_; });
    }
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::weak_ptr<HotKernel>> queue_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace

HotKernel::HotKernel(const jit::Kernel& kernel, std::vector<int64_t> sizes,
                     std::shared_ptr<const jit::Code> code, jit::Isa isa,
                     std::shared_ptr<Specialization> counts)
    : kernel_(kernel),
      sizes_(std::move(sizes)),
      name_(kernel.name),
      isa_(isa),
      counts_(std::move(counts)),
      general_(std::move(code)),
      chosen_(general_->function),
      best_{kNever, kNever} {}

HotKernel::~HotKernel() {
  if (!special_) return;
  live_kernels -= 1;
  live_bytes -= special_->bytes;
}

std::shared_ptr<HotKernel> HotKernel::make(const jit::Kernel& kernel, std::vector<int64_t> sizes,
                                           std::shared_ptr<const jit::Code> code, jit::Isa isa,
                                           std::shared_ptr<Specialization> counts) {
  std::shared_ptr<HotKernel> hot(
      new HotKernel(kernel, std::move(sizes), std::move(code), isa, std::move(counts)));
  if (hot->counts_->mode == SpecializeMode::wait) {
    hot->wanted_ = jit::specialize(kernel, hot->sizes_);
    hot->compile();
  }
  return hot;
}

void HotKernel::set_limits(const SpecializeLimits& given) {
  static std::mutex mutex;
  static auto& all = *new std::deque<SpecializeLimits>;  // threads may still use earlier limits
  std::lock_guard lock(mutex);
  limits = &all.emplace_back(given);
}

HotKernel::Turn HotKernel::begin_timed(State state) {
  if (state == State::counting) return {general_->function, 0, Clock::now()};
  const int version = static_cast<int>(calls_.fetch_add(1, std::memory_order_relaxed) & 1);
  return {version ? special_->function : general_->function, version, Clock::now()};
}

void HotKernel::end_timed(const Turn& turn) {
  const int64_t took = std::chrono::nanoseconds(Clock::now() - turn.start).count();
  const SpecializeLimits& wanted = *limits.load();
  State state = state_.load(std::memory_order_acquire);
  if (state == State::counting) {
    const int64_t calls = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
    const int64_t spent = spent_.fetch_add(took, std::memory_order_relaxed) + took;
    if (calls < wanted.calls || spent < wanted.spent.count()) return;
    if (!state_.compare_exchange_strong(state, State::asked)) return;
    wanted_ = jit::specialize(kernel_, sizes_);
    if (!Background::get().ask(weak_from_this())) refuse("too many kernels wait for the compiler");
  } else if (state == State::turns) {
    std::atomic<int64_t>& best = best_[turn.version];
    int64_t least = best.load(std::memory_order_relaxed);
    while (took < least && !best.compare_exchange_weak(least, took)) {
    }
    if (spent_.fetch_add(1) + 1 == wanted.turns) decide();
  }
}

void HotKernel::compile() {
  const SpecializeLimits& most = *limits.load();
  if (live_kernels >= most.kernels)
    return refuse(std::to_string(most.kernels) + " kernels are specialized already");
  if (live_bytes >= most.bytes)
    return refuse("specialized kernels have " + std::to_string(live_bytes) + " bytes already");
  auto code = jit::Compiler::get().compile({&wanted_}, isa_);
  if (!code.ok()) return refuse(code.status().message());
  special_ = std::move(code->front());
  wanted_ = {};
  live_kernels += 1;
  live_bytes += special_->bytes;
  if (counts_->mode == SpecializeMode::wait) {
    chosen_.store(special_->function);
    counts_->kept += 1;
    tell("kept", "asked to wait for it");
    state_.store(State::decided);
  } else {
    calls_.store(0);
    spent_.store(0);
    tell("compiled", "hot");
    state_.store(State::turns);
  }
}

void HotKernel::decide() {
  const int64_t general = best_[0], special = best_[1];
  const bool better = static_cast<double>(special) <= kWorthwhile * static_cast<double>(general);
  if (better) chosen_.store(special_->function);
  (better ? counts_->kept : counts_->refused) += 1;
  tell(better ? "kept" : "dropped",
       std::to_string(special) + " ns with constants, " + std::to_string(general) + " ns with arguments");
  state_.store(State::decided);
}

void HotKernel::refuse(const std::string& why) {
  counts_->refused += 1;
  tell("refused", why);
  state_.store(State::decided);
}

void HotKernel::tell(const char* event, const std::string& why) const {
  if (!log_wanted("specialize")) return;
  std::string sizes;
  for (int64_t n : sizes_) sizes += (sizes.empty() ? "" : " ") + std::to_string(n);
  log_row("specialize", "event,kernel,sizes,why", {event, name_, sizes, why});
}

}  // namespace tenon
