// The accuracy rule: is what a program computed as exact as the graph allows?
//
// Integers, bools and whatever is only moved must agree bit for bit. For values that were rounded anywhere the graph is
// evaluated again in double: once as it is (the reference), and a few times with every rounding operation's result
// changed by as much as the operation may be off (half an ulp of the node's dtype, the row's ulp, for a sum that times
// the sum of absolute values and the square root of the count). The largest distance of these runs, and of the evaluator
// itself, from the reference says how much the answer depends on rounding: where subtraction cancels or a comparison is
// close, that is much, elsewhere a few ulps. The rule, with k = kSpread:
//   |got - reference| <= k * max |run - reference| + 2 ulps of the dtype
// An element on whose NaN, infinity or (for integers computed from floats) value the runs disagree says nothing; such
// elements are counted. Kernels may keep 16-bit floats in f32 between nodes, so an overflow of f16 is such a case too.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/ops/host_tensor.h"

namespace tenon {

inline constexpr double kSpread = 4;

// What the runs say about one output.
struct Wanted {
  HostTensor expected;  // the evaluator's
  bool rounded = false;
  bool moved = true;             // by moves alone: signs of zeros too
  std::vector<HostTensor> runs;  // floats in f64; the first is the reference
};

// Per output. The inputs' shapes tell the sizes.
Result<std::vector<Wanted>> wanted(const Graph& graph, std::span<const HostTensor> inputs);

// "" when element i of got is right; *says_nothing is set where the runs disagree.
std::string compare(const Wanted& w, const HostTensor& got, int64_t i, bool* says_nothing);

}  // namespace tenon
