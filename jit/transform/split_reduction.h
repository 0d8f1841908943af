// split: a reduction of few or short rows over many elements as two kernels; on a GPU that of the channels of images too, in
// parts of several images. The first folds parts of fixed size, each a par iteration, into temporaries; the second folds those and
// does the rest. On a GPU few long rows of a softmax run so too (join_online_reductions.h): parts have a maximum and what follows it each. So all threads have work whatever the shape, and errors grow with the length of a part and the number of parts.
// What a part is does not depend on threads. When, and how long parts are, is schedule.h's. Tested by tests/unit/jit/split_reduction_test.cc and tests/golden/jit/lower_full_sum.tn.
#pragma once

#include <vector>

#include "jit/lower/lower.h"

namespace tenon::jit {

// One kernel as lowering leaves it, before it is tiled; that one, or two in the order they run.
std::vector<LoweredKernel> split_reduction(const LoweredKernel& lowered, DimTable& dims, Target target);

// Whether a kernel for a GPU walks more than once along columns, or along the channels of images, far enough for parts each time:
// no split takes it apart, so only as many threads or teams as there are columns or channels would have work.
bool walks_again(const LoweredKernel& lowered, DimTable& dims);

}  // namespace tenon::jit
