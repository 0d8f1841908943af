// intermediates: where the values between the steps of a plan lie: in the workspace, or in donated inputs that no step reads any
// more. Tested by tests/unit/runtime/memory_test.cc and tests/unit/runtime/donated_test.cc.
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

struct Intermediates {
  std::vector<int> slot;            // per value: its lifetime, or -1
  std::vector<Lifetime> lifetimes;  // region: an index into `donated`
  std::vector<int> donated;         // positions of the inputs that may hold intermediates
  int64_t workspace = 0;            // bytes
  int64_t in_donated = 0;           // bytes of the donated inputs that hold some
  int64_t unshared = 0;             // the sum of all bytes
};
// inputs: the tensors that the host will pass.
Result<Intermediates> place_intermediates(const PlanSource& source, const Sizes& sizes,
                                          std::span<const Plan::Expected> inputs);

}  // namespace tenon
