// ProgramOptions: how a program is made.
#pragma once

#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/backend/memory.h"
#include "src/runtime/plan/cache.h"

namespace tenon {

struct ProgramOptions {
  bool freeze = false;                // the params given to make() are constants: packed and folded once
  Parallel* parallel = nullptr;       // null: default_parallel()
  int threads = 0;                    // the most to use; 0: as many as `parallel` has
  DeviceId device = {};               // where the program runs, and its inputs and outputs lie
  std::vector<std::string> backends;  // names, in order of preference; empty: all of the device
  std::vector<std::string> without;   // passes that are left out (src/passes/pipeline.h)
  int verify = 0;                     // how many of the first runs the evaluator computes too and compares
  PlanLimits limits = {};
  int64_t budget = 0;        // of bytes of intermediates (recompute() in src/passes/passes.h); 0: none
  Allocator allocator = {};  // for the workspace of runs and for folded constants, on the CPU
  DeviceGraphs graphs = DeviceGraphs::of_small_kernels;
  DeviceMemory* device_memory = nullptr;  // for the workspace of runs on another device; null: the driver's
};

}  // namespace tenon
