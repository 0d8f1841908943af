// See exit_gate.h.
#include "backends/onednn/exit_gate.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>

namespace tenon::onednn {
namespace {

// A process makes few kinds of primitives, and exit handlers are never taken back.
constexpr int kMostHandlers = 512;
constexpr int kPatienceMs = 2000;

std::atomic<int64_t> inside{0};
std::atomic<bool> closed{false};
std::atomic<int> handlers{0};
thread_local int depth = 0;
thread_local bool exiting = false;

void close_gate() {
  exiting = true;  // destructors of the host may still run programs, on this thread
  closed.store(true);
  const int64_t own = depth > 0 ? 1 : 0;
  for (int ms = 0; ms < kPatienceMs && inside.load() > own; ++ms) usleep(1000);
}

}  // namespace

InLibrary::InLibrary() {
  if (depth++ > 0) return;
  inside.fetch_add(1);
  if (!closed.load() || exiting) return;
  inside.fetch_sub(1);
  for (;;) pause();
}

InLibrary::~InLibrary() {
  if (--depth == 0) inside.fetch_sub(1);
}

void used_anew() {
  static std::once_flag once;
  std::call_once(once, [] {
    // The child of a fork has this thread alone.
    pthread_atfork(nullptr, nullptr, [] { inside.store(depth > 0 ? 1 : 0); });
  });
  if (handlers.fetch_add(1) < kMostHandlers) std::atexit(close_gate);
}

}  // namespace tenon::onednn
