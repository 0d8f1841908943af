// See threads.h. Also defines the functions of src/backend/fork.h.
#include "backends/cpu/threads.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "src/backend/fork.h"
#include "src/backend/host_threads.h"
#include "src/base/threads/immortal.h"

namespace tenon {
namespace {

class OpenMp final : public Parallel {
 public:
  int threads() const override { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

  void run(int64_t n, int most, RangeFn fn, void* arg) override {
    const int parts = static_cast<int>(std::min<int64_t>({n, most, threads()}));
    if (parts <= 1) {
      if (n > 0) fn(arg, 0, 0, n);
      return;
    }
#pragma omp parallel num_threads(parts)
    {
      const int got = omp_get_num_threads(), self = omp_get_thread_num();
      const int64_t begin = n * self / got, end = n * (self + 1) / got;
      if (begin < end) fn(arg, self, begin, end);
    }
  }
};

// A thread that runs jobs for the one thread that survived a fork. It waits for jobs as long as the process lives.
struct Worker {
  std::mutex mutex;
  std::condition_variable changed;
  void (*job)(void*) = nullptr;
  void* arg = nullptr;
  int threads = 1;
  std::exception_ptr thrown;

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return job != nullptr; });
      omp_set_num_threads(threads);
      try {
        job(arg);
      } catch (...) {
        thrown = std::current_exception();
      }
      job = nullptr;
      changed.notify_all();
    }
  }
};
thread_local Worker* worker = nullptr;
thread_local bool lost = false;

}  // namespace

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      lost = true;
      worker = nullptr;  // in a fork of a fork: the worker of the parent, never freed
    });
  });
}

bool threads_lost() { return lost && omp_get_max_threads() > 1; }

void on_new_thread(void (*job)(void*), void* arg) {
  if (!worker) {
    Worker* fresh = new Worker;  // never destroyed: its thread may outlive static destruction
    std::thread([fresh] { fresh->work(); }).detach();
    worker = fresh;
  }
  std::unique_lock lock(worker->mutex);
  worker->job = job;
  worker->arg = arg;
  worker->threads = omp_get_max_threads();
  worker->changed.notify_all();
  worker->changed.wait(lock, [] { return worker->job == nullptr; });
  if (worker->thrown) std::rethrow_exception(std::exchange(worker->thrown, nullptr));
}

void set_host_threads(int threads) { omp_set_num_threads(threads); }

HostThreadLimit::HostThreadLimit(int most) {
  if (const int now = omp_get_max_threads(); most < now) {
    before_ = now;
    omp_set_num_threads(most);
  }
}
HostThreadLimit::~HostThreadLimit() {
  if (before_ > 0) omp_set_num_threads(before_);
}

Parallel& openmp_parallel() { return immortal<OpenMp>(); }

}  // namespace tenon
