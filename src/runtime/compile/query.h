// query: which nodes of a graph run, on which back end, and why or why not. It builds nothing. Tested by
// tests/abi/capi*.c.
#pragma once

#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/ir/graph.h"
#include "src/ir/op.h"

namespace tenon {

struct Answer {
  std::string backend;  // "": none; several names joined by "+" if several run the body
  std::string why;      // a sentence in both cases
};

// One answer per node of a verified graph; the answers of inputs and constants are empty.
std::vector<Answer> query(const Graph& graph, int device_type = DeviceId::kCpu);

}  // namespace tenon
