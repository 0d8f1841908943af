// See threads.h.
#include "backends/cpu/threads.h"

#include <omp.h>

#include <algorithm>

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

}  // namespace

Parallel& openmp_parallel() {
  static OpenMp parallel;
  return parallel;
}

}  // namespace tenon
