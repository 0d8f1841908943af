// prefetch: what a kernel loads into the cache ahead of time. In a kernel with several passes over a row, the first
// pass waits for its row and the last pass for the lines that it writes; the passes in between compute on cached
// data. So these passes prefetch the next row and the lines of the current row of results. A reduction that is
// the only pass waits all the time, so it prefetches later elements: the processor itself prefetches nothing
// across the end of a page. The kernel is verified. Tested by tests/unit/jit/kernel/kernel_test.cc.
#pragma once

#include <vector>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

struct Prefetch {
  const Stmt* loop;  // the loop that prefetches
  int buffer;
  Address address;         // in the current row, in terms of the loop's simd variable
  Address step;            // from the current row to the prefetched row; empty: 0
  bool only_pass = false;  // worth it for more data than caches hold
};
// Bytes from an element of the only pass to the one that it prefetches.
inline constexpr int64_t kPassBytesAhead = 2048;

std::vector<Prefetch> prefetches(const Kernel& kernel);

}  // namespace tenon::jit
