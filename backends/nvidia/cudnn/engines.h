// Engines: finds the first usable engine among those that the library's heuristics name for a graph. Engines are left out if their
// results differ from run to run, or if they compute with fewer bits than the dtype; TF32 is such a case unless it is allowed. An
// engine that compiles at run time is taken only if there is no other. Tested by tests/unit/backends/cudnn_test.cc; on NVIDIA's
// library by tests/unit/backends/cudnn_plan_test.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/nvidia/cudnn/library.h"

namespace tenon::cudnn {

// The device that plans are made for: the device of a handle, or, without a handle, a description of a device that may be absent.
struct Target {
  DnnHandle handle = nullptr;
  const Descriptor* device = nullptr;
};

struct Engine {
  Descriptor config;
  int64_t workspace = 0;  // bytes
  std::unique_ptr<Descriptor> plan;
};
// graph: finalized. tensor_cores: engines that use tensor cores are allowed. Null: there is no usable engine, and `refused` is the
// error of the first engine that could not be used. An error other than unsupported takes precedence, since that engine may work
// at another time.
Result<std::unique_ptr<Engine>> find_engine(const Library& library, const Target& target,
                                            const Descriptor& graph, bool tensor_cores,
                                            int64_t most_workspace, Status* refused);
// Makes one more plan of an engine. Null: the library makes none, and `refused` is its error.
Result<std::unique_ptr<Descriptor>> make_plan(const Library& library, const Target& target,
                                              const Descriptor& config, Status* refused);

}  // namespace tenon::cudnn
