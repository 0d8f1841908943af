// prefetch: what a kernel with several passes over a row loads into the cache ahead of time. The first pass
// waits for its row and the last pass for the lines that it writes; the passes in between compute on cached
// data. So these passes prefetch the next row, if they compute long enough to hide it, and the lines of the
// current row of results. The kernel is verified. Tested by tests/unit/jit/kernel/kernel_test.cc.
#pragma once

#include <vector>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

struct Prefetch {
  const Stmt* loop;  // the loop that prefetches
  int buffer;
  Address address;  // in the current row, in terms of the loop's simd variable
  Address step;     // from the current row to the prefetched row; empty: 0
};

std::vector<Prefetch> prefetches(const Kernel& kernel);

}  // namespace tenon::jit
