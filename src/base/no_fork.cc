// See no_fork.h. There are two counters: threads in a section, and forks that wait. A thread that enters a
// section first counts itself and then looks for forks; a fork first counts itself and then looks for
// threads. So at least one of the two sees the other.
#include "src/base/no_fork.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace tenon {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kPause = std::chrono::microseconds(50);

std::atomic<int> inside{0};
std::atomic<int> forks{0};
thread_local int depth = 0;
thread_local bool counted = false;

void before_fork() {
  forks.fetch_add(1);
  const int own = counted ? 1 : 0;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (inside.load() > own && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kPause);
}
void in_parent() { forks.fetch_sub(1); }
void in_child() {
  forks.store(0);
  inside.store(counted ? 1 : 0);
}

}  // namespace

NoFork::NoFork() {
  if (depth++ > 0) return;
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(before_fork, in_parent, in_child); });
  for (;;) {
    inside.fetch_add(1);
    if (forks.load() == 0) break;
    inside.fetch_sub(1);
    while (forks.load() != 0) std::this_thread::sleep_for(kPause);
  }
  counted = true;
}

NoFork::~NoFork() {
  if (--depth > 0) return;
  counted = false;
  inside.fetch_sub(1);
}

NoFork::Helper::Helper() { ++depth; }
NoFork::Helper::~Helper() { --depth; }

}  // namespace tenon
