// query: which nodes of a graph run, on which back end, and why or why not; nothing is built.
// Tested by tests/abi/capi*.c.
#pragma once

#include <string>
#include <vector>

#include "src/ir/graph.h"
#include "src/ir/op.h"
#include "src/runtime/backend.h"

namespace tenon {

struct Answer {
  std::string backend;  // "": none; several joined by "+" where a body is run by several
  std::string why;      // a sentence, for both answers
};

// One answer per node of a verified graph; inputs and constants have empty ones.
std::vector<Answer> query(const Graph& graph, int device_type = DeviceId::kCpu);

}  // namespace tenon
