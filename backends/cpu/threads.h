// Threads: runs parallel ranges on OpenMP, so that Tenon shares one thread pool with PyTorch and oneDNN. A range uses at most
// omp_get_max_threads() threads of the calling thread, and one thread inside a parallel region.
// Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Parallel& openmp_parallel();

}  // namespace tenon
