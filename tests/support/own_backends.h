// The functions of backends/list.cc, except all_backends(). A test that includes this file defines its own list of back ends. The
// functions of an executable replace those of its shared libraries. Used by tests/unit/jit/analysis/index_test.cc and
// tests/unit/backends/toy_backend_test.cc.
#pragma once

#include "backends/cpu/threads.h"
#include "src/backend/backend.h"

namespace tenon {

Backend* find_backend(std::string_view name) {
  for (Backend* b : all_backends())
    if (b->name() == name) return b;
  return nullptr;
}
std::vector<ReportLine> gpu_report() { return {}; }
Parallel& default_parallel() { return openmp_parallel(); }

}  // namespace tenon
