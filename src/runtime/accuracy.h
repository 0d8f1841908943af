// The accuracy rule: is a program's result as exact as the graph allows?
//
// Integers, bools and values that are only moved must agree bit for bit. For values that depend on a rounded value, the
// graph is evaluated again in double: once unchanged (the reference), and a few times with the result of every rounding
// operation changed by as much as the operation may be off: half an ulp of the node's dtype plus the row's ulp; for a sum,
// relative to the sum of absolute values and times the square root of the count. The largest distance of these runs, and
// of the evaluator's result, from the reference tells how much the answer depends on rounding: much where subtraction
// cancels or a comparison is close, elsewhere a few ulps. The rule, with k = kSpread:
//   |got - reference| <= k * max |run - reference| + 2 ulps of the dtype
// If the runs disagree on whether an element is NaN or infinite, or on the value of an integer computed from floats, the
// element says nothing and is counted as such. Kernels may keep 16-bit floats in f32 between nodes, so an overflow of f16
// is also such a case.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/ops/eval/host_tensor.h"

namespace tenon {

inline constexpr double kSpread = 4;

// The results of the runs for one output.
struct Wanted {
  HostTensor expected;  // the evaluator's result
  bool rounded = false;
  bool moved = true;             // computed by moves alone: the signs of zeros must agree too
  std::vector<HostTensor> runs;  // floats in f64; the first is the reference
};

// One entry per output. The shapes of the inputs determine the symbols.
Result<std::vector<Wanted>> wanted(const Graph& graph, std::span<const HostTensor> inputs);

// "" if element i of got is right. Sets *says_nothing if the runs disagree.
std::string compare(const Wanted& w, const HostTensor& got, int64_t i, bool* says_nothing);

}  // namespace tenon
