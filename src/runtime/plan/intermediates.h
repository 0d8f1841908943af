// intermediates: where the values between the steps of a plan lie: in the workspace, in donated inputs that no step reads any more, or,
// if they are large, in outputs that no step has written yet. Tested by tests/unit/runtime/memory_test.cc and tests/unit/runtime/donated_test.cc.
#pragma once

#include <span>
#include <vector>

#include "src/backend/memory.h"
#include "src/runtime/plan/plan.h"

namespace tenon {

// The most bytes of a tensor in memory, and the farthest its strides may reach: 64 TiB.
inline constexpr int64_t kMostBytes = int64_t{1} << 46;

// Bytes of a value; negative if a size has no value or is negative, or if the product does not fit.
int64_t plain_bytes(const Sizes& sizes, const TensorType& type);

// A tensor of the host that may hold intermediates.
struct HostMemory {
  BufferRef::Kind kind;  // input or output
  int index;
};

struct Intermediates {
  std::vector<int> slot;            // per value: its lifetime, or -1
  std::vector<Lifetime> lifetimes;  // region: an index into `regions`
  std::vector<HostMemory> regions;
  int64_t workspace = 0;   // bytes
  int64_t in_donated = 0;  // bytes of the donated inputs that hold some
  int64_t in_outputs = 0;  // bytes of the outputs that hold some
  int64_t unshared = 0;    // the sum of all bytes
};
// plan: with the tensors that the host will pass, and the pairs of them that may be one buffer.
Result<Intermediates> place_intermediates(const PlanSource& source, const Sizes& sizes, const Plan& plan);

}  // namespace tenon
