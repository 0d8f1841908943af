// prefetch: what a kernel of several passes over a row asks memory for ahead of time. The first pass waits for its row,
// the last for the lines it writes, and the passes between them compute on what is in the cache already: meanwhile they
// ask for the next row and for this row of the results. Made from a verified kernel. Tested by tests/unit/jit/kernel_test.cc.
#pragma once

#include <vector>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

struct Prefetch {
  const Stmt* loop;  // while this one runs
  int buffer;
  Address address;  // of this row, by the loop's simd variable
  Address step;     // from this row to the one that is wanted; empty: 0
};

std::vector<Prefetch> prefetches(const Kernel& kernel);

}  // namespace tenon::jit
