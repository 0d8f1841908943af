// Engines: what the library's heuristics name for a graph, and the first of it that can be used. Left out are engines whose results
// differ from run to run, and those that compute in fewer bits than the dtype: TF32 among them, unless it is allowed. One that has to compile first
// is taken where there is no other. Tested by tests/unit/backends/cudnn_test.cc; on NVIDIA's library by tests/unit/backends/cudnn_plan_test.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/nvidia/cudnn/library.h"

namespace tenon::cudnn {

// What plans are made for: the device of a handle, or, without one, a device that need not be here.
struct Target {
  DnnHandle handle = nullptr;
  const Descriptor* device = nullptr;
};

struct Engine {
  Descriptor config;
  int64_t workspace = 0;  // bytes
  std::unique_ptr<Descriptor> plan;
};
// `graph` is finalized. tensor_cores: engines that use them may be taken. Null where there is none, and then `refused` is what was
// said of the first that could not be used; of the first that may be usable another time, if there is one.
Result<std::unique_ptr<Engine>> find_engine(const Library& library, const Target& target,
                                            const Descriptor& graph, bool tensor_cores,
                                            int64_t most_workspace, Status* refused);
// Another plan of an engine. Null, and what the library says, where it does not make one.
Result<std::unique_ptr<Descriptor>> make_plan(const Library& library, const Target& target,
                                              const Descriptor& config, Status* refused);

}  // namespace tenon::cudnn
