// Threads: parallel ranges on OpenMP, so that we share one pool with the host (PyTorch, oneDNN). Thread counts follow
// omp_get_max_threads() of the calling thread, or a fixed number. Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include "src/runtime/backend.h"

namespace tenon {

Parallel& openmp_parallel();

}  // namespace tenon
